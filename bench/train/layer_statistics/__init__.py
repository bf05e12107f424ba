"""Statistics of a trained model, layer by layer."""
