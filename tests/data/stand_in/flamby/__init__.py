"""A stand-in with FLamby's interface and none of its code: small centres of known numbers."""
