"""The reference against arithmetic done by hand: two clients, models of one to six numbers, one or two rounds.

Unless a test says otherwise the loss is half the mean squared error, so that the model y = w x has the gradient
x (w x - y); the learning rate is 0.1, clients A and B hold 1 and 3 training samples.
"""

from __future__ import annotations

from math import exp, log, sqrt

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, cross_entropy

from . import apfl, central, fedadam, fedavg, fedper, fedprox, fenda, local, models, moon, perfcl, scaffold
from .common import Batch, Site, Trace

# --- small parts -----------------------------------------------------------------------------------------------------


def half_squared_error(output: Tensor, y: Tensor) -> Tensor:
    return ((output - y) ** 2).mean() / 2


def push(output: Tensor, y: Tensor) -> Tensor:
    """A loss whose gradient with respect to a sample's output is y: features move where the test sends them."""
    return (output * y).sum(1).mean()


def batch(*samples: tuple[float, float]) -> Batch:
    x, y = zip(*samples, strict=True)
    return torch.tensor(x).float().reshape(-1, 1), torch.tensor(y).float().reshape(-1, 1)


def site(rounds: list[list[Batch]], samples: int = 1, val: list[Batch] | None = None) -> Site:
    val = val or [batch((1.0, 0.0))]
    return Site(rounds, samples, val, sum(len(x) for x, _ in val))


def line(*weights: float) -> nn.Linear:
    """A bias-free layer from one input to as many outputs as there are weights."""
    layer = nn.Linear(1, len(weights), bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights).reshape(-1, 1))
    return layer


def head(*weights: float) -> nn.Linear:
    """A bias-free layer from as many inputs as there are weights to one output."""
    layer = nn.Linear(len(weights), 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights).reshape(1, -1))
    return layer


def values(trace: Trace, t: int, client: int, name: str = "weight") -> list[float]:
    return trace.personal[t][client][name].flatten().tolist()


def near(expected: float | list[float]) -> object:
    return pytest.approx(expected, abs=1e-6, rel=1e-6)


SGD = {"optimizer": "sgd", "loss": half_squared_error}

# --- averaging, validation, optimisers -------------------------------------------------------------------------------


def test_fedavg_weights_by_training_samples_and_takes_every_step() -> None:
    # Round 1 from w = 1.  A: g = 1 - 3 = -2, w = 1.2.  B: g = 2 (2 - 0) = 4, w = 0.6.  (1.2 + 3 * 0.6) / 4 = 0.75
    # Round 2 from 0.75.  A: g = -2.25, w = 0.975.  B, two steps: g = 3, w = 0.45; g = 1.8, w = 0.27.
    # (0.975 + 3 * 0.27) / 4 = 0.44625
    a = site([[batch((1, 3))], [batch((1, 3))]], samples=1)
    b = site([[batch((2, 0))], [batch((2, 0)), batch((2, 0))]], samples=3)
    trace = fedavg.run([a, b], line(1.0), rounds=2, hyper={"lr": 0.1}, **SGD)
    for t, expected in enumerate((0.75, 0.44625)):
        assert trace.server[t]["weight"].item() == near(expected)
        assert [values(trace, t, i) for i in range(2)] == [near([expected])] * 2


def test_validation_counts_a_short_batch_fully_and_weights_clients_by_validation_samples() -> None:
    # The aggregate of the first round above is 0.75.
    # A: errors 1, 1 | 2: batch means 0.5 and 2, so 1.25 (a mean over samples would be 1).  B: error 0.
    # Aggregated over 3 and 1 validation samples: 3 * 1.25 / 4 = 0.9375
    a = site([[batch((1, 3))]], samples=1, val=[batch((1, -0.25), (1, 1.75)), batch((1, 2.75))])
    b = site([[batch((2, 0))]], samples=3, val=[batch((1, 0.75))])
    trace = fedavg.run([a, b], line(1.0), rounds=1, hyper={"lr": 0.1}, **SGD)
    assert trace.validation[0] == near([1.25, 0.0])
    assert trace.aggregated[0] == near(0.9375)


def test_momentum_outlives_the_round() -> None:
    # Momentum 0.5.  Round 1 from 1: A g = -2, w = 1.2; B g = 2, w = 0.8; mean 0.9.
    # Round 2 from 0.9: A buffer 0.5 * -2 - 2.1 = -3.1, w = 1.21; B buffer 0.5 * 2 + 1.9 = 2.9, w = 0.61; mean 0.76
    # (0.81 if the buffers were forgotten).
    a, b = site([[batch((1, 3))]] * 2, samples=1), site([[batch((1, -1))]] * 2, samples=3)
    trace = fedavg.run([a, b], line(1.0), rounds=2, hyper={"lr": 0.1, "momentum": 0.5}, **SGD)
    assert [state["weight"].item() for state in trace.server] == near([0.9, 0.76])


def test_adamw_moments_outlive_the_round() -> None:
    # y = 0 keeps gradients equal to w.  Round 1 from 2: decay 2 * (1 - 0.1 * 0.01) = 1.998, then -0.1 * g / |g|: 1.898.
    # Round 2: g = 1.898; m = 0.9 * 0.1 * 2 + 0.1 * g over 1 - 0.9^2; v likewise with 0.999.
    [a] = [site([[batch((1, 0))]] * 2)]
    trace = fedavg.run([a], line(2.0), rounds=2, optimizer="adamw", hyper={"lr": 0.1}, loss=half_squared_error)
    g = 1.898
    m, v = (0.09 * 2 + 0.1 * g) / (1 - 0.81), (0.000999 * 4 + 0.001 * g**2) / (1 - 0.999**2)
    assert [values(trace, t, 0)[0] for t in range(2)] == near([g, g * 0.999 - 0.1 * m / sqrt(v)])


def test_fedavg_averages_running_statistics_of_batch_norm() -> None:
    # Momentum 0.1 from mean 0 and variance 1.  A sees 1, 3: mean 2, unbiased variance 2: 0.2 and 1.1.
    # B sees 2, 10: mean 6, variance 32: 0.6 and 4.1.  Weighted 1 : 3: 0.5 and 3.35.  (The rate 0 holds the weights.)
    a, b = site([[batch((1, 0), (3, 0))]], samples=1), site([[batch((2, 0), (10, 0))]], samples=3)
    model = nn.Sequential(nn.BatchNorm1d(1), line(1.0))
    trace = fedavg.run([a, b], model, rounds=1, hyper={"lr": 0.0}, **SGD)
    assert trace.server[0]["0.running_mean"].item() == near(0.5)
    assert trace.server[0]["0.running_var"].item() == near(3.35)
    # Evaluation uses them: x = 1 becomes (1 - 0.5) / sqrt(3.35 + 1e-5).
    assert trace.validation[0] == near([0.25 / (3.35 + 1e-5) / 2] * 2)


def test_local_models_never_meet_and_central_is_one_client() -> None:
    # A: 1.2, then 1.2 + 0.18 = 1.38.  B (one client would be the pooled one): g = 4, w = 0.6; g = 2.4, w = 0.36.
    a, b = site([[batch((1, 3))]] * 2), site([[batch((2, 0))]] * 2, samples=3)
    trace = local.run([a, b], line(1.0), rounds=2, hyper={"lr": 0.1}, **SGD)
    assert [values(trace, 1, i)[0] for i in range(2)] == near([1.38, 0.36])
    assert trace.server == [None, None]
    pooled = central.run([b], line(1.0), rounds=2, hyper={"lr": 0.1}, **SGD)
    assert values(pooled, 1, 0) == near([0.36])
    with pytest.raises(ValueError, match="too many values"):
        central.run([a, b], line(1.0), rounds=2, hyper={"lr": 0.1}, **SGD)


# --- server and client corrections -----------------------------------------------------------------------------------


def test_fedadam_drifts_below_zero_as_in_appendix_h() -> None:
    # FENDA-FL, Algorithm 1: with rate 1 every client returns 0.1 whatever it receives; x_0 = 2, b1 = b2 = 0.9.
    # First round: Delta = -1.9, m = -0.19, v = 0.361, x = 2 - 0.1 * 0.19 / sqrt(0.361).  After 30 rounds: -0.2046.
    sites = [site([[batch((1, 0.1))]] * 30, samples=n) for n in (1, 3)]
    hyper = {"lr": 1.0, "server_lr": 0.1, "beta1": 0.9, "beta2": 0.9, "tau": 1e-9}
    trace = fedadam.run(sites, line(2.0), rounds=30, hyper=hyper, **SGD)
    assert trace.server[0]["weight"].item() == near(2 - 0.019 / sqrt(0.361))
    assert trace.server[-1]["weight"].item() == pytest.approx(-0.2046, abs=5e-5)


def test_fedadam_defaults_and_untracked_batch_norm() -> None:
    # The aggregate of FedAvg's first round is 0.75: Delta = -0.25, m = -0.025, v = 0.01 * 0.0625, so m / sqrt(v) = -1.
    a, b = site([[batch((1, 3))]], samples=1), site([[batch((2, 0))]], samples=3)
    trace = fedadam.run([a, b], line(1.0), rounds=1, hyper={"lr": 0.1, "server_lr": 0.01}, **SGD)
    assert trace.server[0]["weight"].item() == near(0.99)
    assert [trace.final[k]["weight"].item() for k in "mv"] == near([-0.025, 0.000625])
    wide = site([[batch((1, 0), (3, 0))]], val=[batch((1, 0), (3, 0))])
    model = nn.Sequential(nn.BatchNorm1d(1, affine=False), line(1.0))
    untracked = fedadam.run([wide], model, rounds=1, hyper={"lr": 0.0, "server_lr": 0.1}, **SGD)
    assert list(untracked.server[0]) == ["1.weight"]
    # In evaluation, too, 1 and 3 become -1 and 1 (biased variance 1).
    assert untracked.validation[0] == near([0.5 / (1 + 1e-5)])


def test_fedprox_pulls_towards_the_weights_of_the_round_start() -> None:
    # mu = 0.5, two steps a round, equal weights.
    # Round 1 from 1.  A: g = -2, w = 1.2; g = -1.8 + 0.5 * 0.2, w = 1.37.  B (y = 1) rests at 1.  Mean 1.185.
    # Round 2 from 1.185.  A: g = -1.815, w = 1.3665; g = -1.6335 + 0.5 * 0.1815, w = 1.520775.
    # B: g = 0.185, w = 1.1665; g = 0.1665 - 0.5 * 0.0185, w = 1.150775.  Mean 1.335775.
    a, b = (site([[batch((1, y))] * 2] * 2) for y in (3, 1))
    trace = fedprox.run([a, b], line(1.0), rounds=2, hyper={"lr": 0.1, "mu": 0.5}, **SGD)
    assert [state["weight"].item() for state in trace.server] == near([1.185, 1.335775])


def test_scaffold_control_variates_after_each_round() -> None:
    # server_lr = 0.5; A takes one step (x = 1, y = 3), B two (x = 1, y = 0); the sample counts must not matter.
    # Round 1 from 1.  A: y_A = 1.2, c_A = (1 - 1.2) / 0.1 = -2.  B: 0.9, 0.81, c_B = (1 - 0.81) / 0.2 = 0.95.
    #   x = 1 + 0.5 * (1.005 - 1) = 1.0025;  c = (-2 + 0.95) / 2 = -0.525.
    # Round 2 from 1.0025.  A: -1.9975 - c_A + c = -0.5225, y_A = 1.05475.
    #   c_A+ = -2 + 0.525 - 0.05225 / 0.1 = -1.9975.
    #   B: 1.0025 - c_B + c = -0.4725, 1.04975; 1.04975 - 1.475 = -0.42525, y_B = 1.092275.
    #   c_B+ = 0.95 + 0.525 - 0.089775 / 0.2 = 1.026125.
    #   x = 1.0025 + 0.5 * (1.0735125 - 1.0025) = 1.03800625;  c = (-1.9975 + 1.026125) / 2 = -0.4856875.
    a = site([[batch((1, 3))]] * 2, samples=1)
    b = site([[batch((1, 0))] * 2] * 2, samples=3)
    hyper = {"lr": 0.1, "server_lr": 0.5}
    for rounds, x, c, c_a, c_b in ((1, 1.0025, -0.525, -2, 0.95), (2, 1.03800625, -0.4856875, -1.9975, 1.026125)):
        trace = scaffold.run([a, b], line(1.0), rounds=rounds, hyper=hyper, **SGD)
        assert trace.server[-1]["weight"].item() == near(x)
        assert trace.final["c"]["weight"].item() == near(c)
        assert [own["weight"].item() for own in trace.final["variates"]] == near([c_a, c_b])


# --- contrastive terms -----------------------------------------------------------------------------------------------


def chance(cosine_positive: float, cosine_negative: float) -> float:
    """The probability the two-way softmax gives the negative: d con / d cos(z, n) is this over T."""
    return 1 / (1 + exp((cosine_positive - cosine_negative) / 0.5))


def test_contrast_is_two_way_cross_entropy_on_cosines() -> None:
    # cos = 1 and 0 at T = 0.5: -log(e^2 / (e^2 + e^0)); the lengths of the vectors do not matter.
    east, north = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 0.5]])
    assert moon.contrast(east, 2 * east, north, 0.5).item() == near(log(1 + exp(-2)))
    assert moon.contrast(east, north, east, 0.5).item() == near(log(1 + exp(2)))


def test_moon_pushes_features_away_from_the_previous_model() -> None:
    # Features z = base weights (x = 1), rate 1.  Round 1, only the pushes: A (1, 0) + (0, 3) = (1, 3), B (1, -1);
    # aggregate ((1 + 3) / 4, (3 - 3) / 4) = (1, 0).
    # Round 2, no push: z = z_glob = (1, 0), so cos(z, z_glob) = 1 has gradient 0.  z_prev of A is (1, 3):
    # cos = 1 / sqrt(10) with gradient (0, 3 / sqrt(10)), z_prev of B is (1, -1): 1 / sqrt(2), (0, -1 / sqrt(2)).
    # z moves by -mu / T * chance * gradient.
    mu = 0.7
    a, b = (
        site([[(torch.ones(1, 1), torch.tensor([[0.0, y]]))], [(torch.ones(1, 1), torch.zeros(1, 2))]], samples=n)
        for y, n in ((-3.0, 1), (1.0, 3))
    )
    model = models.BaseHead(line(1.0, 0.0), nn.Identity())
    trace = moon.run([a, b], model, rounds=2, optimizer="sgd", hyper={"lr": 1.0, "mu": mu}, loss=push)
    assert values(trace, 0, 0, "base.weight") == near([1.0, 0.0])
    moved_a = -mu / 0.5 * chance(1, 1 / sqrt(10)) * 3 / sqrt(10)
    moved_b = mu / 0.5 * chance(1, 1 / sqrt(2)) / sqrt(2)
    assert values(trace, 1, 0, "base.weight") == near([1.0, (moved_a + 3 * moved_b) / 4])
    assert trace.validation[1] == near([0.0, 0.0])  # the criterion alone, and its y is 0


def test_perfcl_terms_on_both_extractors() -> None:
    # Both extractors start at (1, 0), rate 1.  Round 1: A's local goes to (1, 1), its global to (1, 3); B's local
    # rests, its global goes to (1, -1); global aggregate (1, 0).
    # Round 2, L1 on the global features is MOON's test again.  L2 for A: anchor (1, 1) = own old, cosine 1 and gradient
    # 0; negative the aggregate (1, 0): cosine 1 / sqrt(2), gradient ((1, 0) - (1, 1) / 2) / sqrt(2).
    # For B anchor, own old and aggregate are all (1, 0): nothing moves.
    mu, gamma = 0.7, 0.3
    a, b = (
        site([[(torch.ones(1, 1), torch.tensor([pushes]))], [(torch.ones(1, 1), torch.zeros(1, 4))]], samples=n)
        for pushes, n in (([0.0, -1.0, 0.0, -3.0], 1), ([0.0, 0.0, 0.0, 1.0], 3))
    )
    model = models.Parallel(line(1.0, 0.0), line(1.0, 0.0), nn.Identity())
    hyper = {"lr": 1.0, "mu": mu, "gamma": gamma}
    trace = perfcl.run([a, b], model, rounds=2, optimizer="sgd", hyper=hyper, loss=push)
    assert values(trace, 0, 0, "global_extractor.weight") == near([1.0, 0.0])
    moved_a = -mu / 0.5 * chance(1, 1 / sqrt(10)) * 3 / sqrt(10)
    moved_b = mu / 0.5 * chance(1, 1 / sqrt(2)) / sqrt(2)
    away = gamma / 0.5 * chance(1, 1 / sqrt(2)) * 0.5 / sqrt(2)
    assert values(trace, 1, 0, "global_extractor.weight") == near([1.0, (moved_a + 3 * moved_b) / 4])
    assert values(trace, 1, 0, "local_extractor.weight") == near([1 - away, 1 + away])
    assert values(trace, 1, 1, "local_extractor.weight") == near([1.0, 0.0])


# --- personal parts --------------------------------------------------------------------------------------------------


def test_fedper_shares_the_base_and_keeps_the_head() -> None:
    # y = h b x from b = h = 1.  A: error -2, both 1.2.  B: error 1, both 0.9.  b = (1.2 + 3 * 0.9) / 4 = 0.975
    a, b = site([[batch((1, 3))]], samples=1), site([[batch((1, 0))]], samples=3)
    trace = fedper.run([a, b], models.BaseHead(line(1.0), head(1.0)), rounds=1, hyper={"lr": 0.1}, **SGD)
    assert list(trace.server[0]) == ["base.weight"]
    assert [values(trace, 0, i, "base.weight")[0] for i in range(2)] == near([0.975, 0.975])
    assert [values(trace, 0, i, "head.weight")[0] for i in range(2)] == near([1.2, 0.9])
    # Validation (x = 1, y = 0) uses the new base under the own head.
    assert trace.validation[0] == near([(1.2 * 0.975) ** 2 / 2, (0.9 * 0.975) ** 2 / 2])


def test_fenda_shares_the_global_extractor_only() -> None:
    # y = h1 l x + h2 g x from l = g = 1, h = (1, 2), so y = 3.
    # A: error -1: l = 1.1, g = 1.2, h = (1.1, 2.1).  B: error 2: l = 0.8, g = 0.6, h = (0.8, 1.8).
    # g = (1.2 + 3 * 0.6) / 4 = 0.75
    a, b = site([[batch((1, 4))]], samples=1), site([[batch((1, 1))]], samples=3)
    trace = fenda.run([a, b], models.Parallel(line(1.0), line(1.0), head(1.0, 2.0)), rounds=1, hyper={"lr": 0.1}, **SGD)
    assert list(trace.server[0]) == ["global_extractor.weight"]
    for i, (own, first, second) in enumerate(((1.1, 1.1, 2.1), (0.8, 0.8, 1.8))):
        assert values(trace, 0, i, "local_extractor.weight") == near([own])
        assert values(trace, 0, i, "global_extractor.weight") == near([0.75])
        assert values(trace, 0, i, "head.weight") == near([first, second])
        assert trace.validation[0][i] == near((first * own + second * 0.75) ** 2 / 2)


def test_apfl_alpha_moves_once_a_round_after_the_first_step() -> None:
    # alpha = 0.25, alpha_lr = 1, both nets at 1; A: x = 1, y = 3, two steps.  B: y = 1, one step.
    # A, step 1: w = 1.2.  Mix 0.25 + 0.9 = 1.15, error -1.85; g_v = 0.25 * -1.85, g_w = 0.75 * -1.85.
    #   v = 1 + 0.1 * 0.4625 = 1.04625.  alpha's gradient (1.04625 - 1.2) * (0.25 g_v + 0.75 g_w) + 0.02 * 0.25
    #   = -0.15375 * -1.15625 + 0.005 = 0.1827734375; alpha = 0.0672265625.
    # A, step 2: w = 1.2 + 0.18 = 1.38; v moves by -0.1 * alpha * error of the new mix; alpha stays.
    # B: no error, so only 0.02 * 0.25 moves alpha: 0.245.  w = (1.38 + 3 * 1) / 4 = 1.095
    a, b = site([[batch((1, 3))] * 2], samples=1), site([[batch((1, 1))]], samples=3)
    hyper = {"lr": 0.1, "alpha_lr": 1.0, "alpha0": 0.25}
    trace = apfl.run([a, b], line(1.0), rounds=1, hyper=hyper, **SGD)
    alpha = 0.0672265625
    own = 1.04625 - 0.1 * alpha * (alpha * 1.04625 + (1 - alpha) * 1.38 - 3)
    of_a, of_b = trace.personal[0]
    assert trace.final["alpha"] == near([alpha, 0.245])
    assert (of_a["alpha"], of_b["alpha"]) == tuple(trace.final["alpha"])
    assert [of_a["v"]["weight"].item(), of_b["v"]["weight"].item()] == near([own, 1.0])
    assert trace.server[0]["weight"].item() == of_a["w"]["weight"].item() == near(1.095)
    # Validation (x = 1, y = 0) is on the mix with the aggregated net.
    mixes = [alpha * own + (1 - alpha) * 1.095, 0.245 * 1.0 + 0.755 * 1.095]
    assert trace.validation[0] == near([mix**2 / 2 for mix in mixes])


@pytest.mark.parametrize(("alpha_lr", "expected"), [(10.0, 0.0), (-10.0, 1.0)])
def test_apfl_alpha_is_clipped(alpha_lr: float, expected: float) -> None:
    # As above alpha's gradient is 0.1827734375, ten times which leaves [0, 1] on either side.
    hyper = {"lr": 0.1, "alpha_lr": alpha_lr, "alpha0": 0.25}
    trace = apfl.run([site([[batch((1, 3))]])], line(1.0), rounds=1, hyper=hyper, **SGD)
    assert trace.final["alpha"] == [expected]


def test_apfl_global_batch_norm_sees_every_batch_twice() -> None:
    # One batch 1, 3 with mean 2: the local net's running mean is 0.2, the global net's 0.9 * 0.2 + 0.2 = 0.38.
    model = nn.Sequential(nn.BatchNorm1d(1), line(1.0))
    hyper = {"lr": 0.0, "alpha_lr": 0.0}
    trace = apfl.run([site([[batch((1, 0), (3, 0))]])], model, rounds=1, hyper=hyper, **SGD)
    assert trace.personal[0][0]["v"]["0.running_mean"].item() == near(0.2)
    assert trace.personal[0][0]["w"]["0.running_mean"].item() == near(0.38)


# --- limits on unequal clients ---------------------------------------------------------------------------------------


def ragged(outputs: int, rounds: int = 3) -> list[Site]:
    """Three clients with 2, 3 and 5 local steps a round, the last mini-batch short."""
    generator = torch.Generator().manual_seed(7)

    def draw(n: int) -> Batch:
        x = torch.randn(n, 13, generator=generator)
        y = torch.randint(max(outputs, 2), (n,), generator=generator)
        return x, y.float().unsqueeze(1) if outputs == 1 else y

    shapes = ((4, 3), (4, 4, 2), (4, 4, 4, 4, 3))
    return [Site([[draw(n) for n in s] for _ in range(rounds)], sum(s), [draw(4), draw(2)], 6) for s in shapes]


LIMITS = [
    (fedprox, fedavg, models.mlp, {"mu": 0.0}),
    (moon, fedavg, models.mlp, {"mu": 0.0}),
    (perfcl, fenda, models.parallel, {"mu": 0.0, "gamma": 0.0}),
]


@pytest.mark.parametrize(("method", "limit", "build", "zeros"), LIMITS)
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_without_its_terms_a_method_is_its_parent(method, limit, build, zeros, optimizer) -> None:
    model = build(outputs=3, batch_norm=True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    own = method.run(ragged(3), model, rounds=3, optimizer=optimizer, hyper={"lr": 0.01, **zeros}, loss=cross_entropy)
    parent = limit.run(ragged(3), model, rounds=3, optimizer=optimizer, hyper={"lr": 0.01}, loss=cross_entropy)
    torch.testing.assert_close(own.personal, parent.personal)
    torch.testing.assert_close(own.validation, parent.validation)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_perfcl_begins_with_a_round_of_fenda() -> None:
    # The extractors start at different weights, so L2 would move the local one if it were active.
    arguments = {"rounds": 2, "optimizer": "sgd", "loss": binary_cross_entropy}
    own = perfcl.run(ragged(1), models.parallel(), hyper={"lr": 0.1, "mu": 1.0, "gamma": 1.0}, **arguments)
    parent = fenda.run(ragged(1), models.parallel(), hyper={"lr": 0.1}, **arguments)
    torch.testing.assert_close(own.personal[0], parent.personal[0])
    for name in ("local_extractor.0.weight", "global_extractor.0.weight"):
        assert not torch.allclose(own.personal[1][0][name], parent.personal[1][0][name])


@pytest.mark.parametrize("method", [fedavg, fedprox, scaffold])
def test_one_client_alone_is_local(method) -> None:
    # FedProx needs mu = 0 for it; SCAFFOLD's two variates cancel when the server follows its only client.
    alone, hyper = ragged(1)[2:], {"lr": 0.05, "server_lr": 1.0, "mu": 0.0}
    arguments = {"rounds": 3, "optimizer": "sgd", "hyper": hyper, "loss": binary_cross_entropy}
    own, expected = (run.run(alone, models.logistic(), **arguments) for run in (method, local))
    torch.testing.assert_close(own.personal, expected.personal)


def test_apfl_at_alpha_one_predicts_with_the_local_net() -> None:
    sites, arguments = ragged(1), {"rounds": 3, "optimizer": "adamw", "loss": binary_cross_entropy}
    own = apfl.run(sites, models.mlp(), hyper={"lr": 0.01, "alpha_lr": 0.0, "alpha0": 1.0}, **arguments)
    expected = local.run(sites, models.mlp(), hyper={"lr": 0.01}, **arguments)
    torch.testing.assert_close(own.validation, expected.validation)
    torch.testing.assert_close([state["v"] for state in own.personal[-1]], expected.personal[-1])
    federated = fedavg.run(sites, models.mlp(), hyper={"lr": 0.01}, **arguments)
    torch.testing.assert_close(own.server, federated.server)
