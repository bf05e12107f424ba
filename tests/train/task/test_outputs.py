"""Meaning of a model's output, and losses that equal torch's, also for extreme values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.models.functional import Model
from bench.models.tabular import logistic, mlp
from bench.train.task import losses, outputs
from bench.types import Client, Federation, SpecError, Split
from tests.train.toy import federation


class Then(nn.Module):
    """A linear layer whose output goes through a function."""

    def __init__(self, outputs: int, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(13, outputs), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


MODELS = {
    "nn.Sigmoid": (nn.Sequential(nn.Linear(13, 1), nn.Sigmoid()), "probability"),
    "torch.sigmoid": (Then(1, torch.sigmoid), "probability"),
    "sigmoid in place": (Then(1, lambda z: z.sigmoid_()), "probability"),
    "sigmoid, view": (Then(1, lambda z: torch.sigmoid(z).view(-1, 1)), "probability"),
    "sigmoid, squeeze, unsqueeze": (Then(1, lambda z: torch.sigmoid(z).squeeze(1).unsqueeze(1)), "probability"),
    "sigmoid, first column": (Then(2, lambda z: torch.sigmoid(z)[:, :1]), "probability"),
    "squeezed, then sigmoid": (Then(1, lambda z: torch.sigmoid(z.squeeze(-1)).reshape(-1, 1)), "probability"),
    "softmax": (Then(3, lambda z: torch.softmax(z, 1)), "probability"),
    "nn.Softmax": (nn.Sequential(nn.Linear(13, 3), nn.Softmax(dim=1)), "probability"),
    "log_softmax": (Then(3, lambda z: functional.log_softmax(z, -1)), "log_probability"),
    "logits": (nn.Linear(13, 3), "logit"),
    "sigmoid inside only": (nn.Sequential(nn.Linear(13, 4), nn.Sigmoid(), nn.Linear(4, 1)), "logit"),
    "our binary model": (mlp((13,), 1, dropout=0.3), "probability"),
    "our multi-class model": (logistic((13,), 3), "logit"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_last_operation_says_what_the_output_is(name: str) -> None:
    module, expected = MODELS[name]
    assert outputs.output_kind(Model(module), torch.randn(2, 13)) == expected


@pytest.mark.parametrize(
    ("kind", "module", "shape"),
    [
        ("binary", nn.Linear(13, 2), r"\(2, 2\)"),
        ("binary", nn.Sequential(nn.Linear(13, 1), nn.Flatten(0)), r"\(2,\)"),
        ("multiclass", nn.Linear(13, 1), r"\(2, 1\)"),
    ],
)
def test_an_output_that_does_not_fit_the_task_is_refused(kind: str, module: nn.Module, shape: str) -> None:
    fed = federation(kind)
    with pytest.raises(SpecError, match=f"for 2 samples has shape {shape}; the {kind} task of toy needs"):
        outputs.check_output(Model(module), "net", fed, fed.clients[0], fed.clients[0].train.x[:2])


def test_an_output_that_loses_an_axis_for_one_sample_is_refused() -> None:
    class Squeezing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(13, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).squeeze()

    fed = federation("multiclass")
    with pytest.raises(SpecError, match=r"its output for 1 sample has shape \(3,\); .* needs \(1, 3\)"):
        outputs.check_output(Model(Squeezing()), "net", fed, fed.clients[0], fed.clients[0].train.x[:2])


def test_inputs_that_the_model_does_not_take_are_refused_in_one_line() -> None:
    fed = federation()
    with pytest.raises(SpecError, match=r"model net does not fit toy, whose samples have shape \(13,\): ") as caught:
        outputs.check_output(Model(nn.Linear(7, 1)), "net", fed, fed.clients[0], fed.clients[0].train.x[:2])
    assert "\n" not in str(caught.value)


def test_a_vocabulary_that_lacks_a_token_of_any_client_is_refused() -> None:
    """The largest token is in test samples of the second client, which the check of shapes does not use."""
    few, many = (Split(torch.randint(0, top, (4, 5)), torch.arange(4) % 3) for top in (6, 9))
    many.x[0, 0] = 9
    fed = Federation("words", (Client("a", few), Client("b", few, many)), "multiclass", classes=3)
    with pytest.raises(SpecError, match=r"model net does not fit words, whose samples have shape \(5,\): "):
        outputs.check_output(Model(nn.Linear(5, 3)), "net", fed, fed.clients[0], few.x[:2])
    for vocabulary in (9, 10):
        module = nn.Sequential(nn.Embedding(vocabulary, 2), nn.Flatten(), nn.Linear(10, 3))
        if vocabulary == 10:
            outputs.check_output(Model(module), "net", fed, fed.clients[0], few.x[:2])
            continue
        with pytest.raises(SpecError, match="knows no token 9, which words has; give it a vocabulary of at least 10"):
            outputs.check_output(Model(module), "net", fed, fed.clients[0], few.x[:2])


def test_a_binary_model_cannot_give_log_probabilities() -> None:
    with pytest.raises(SpecError, match="must return a probability or a logit"):
        losses.criterion(federation(), "log_probability")


def test_an_unknown_loss_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'focal'"):
        losses.criterion(dataclasses.replace(federation("multiclass"), loss={"name": "foccal"}), "logit")


def test_losses_equal_torch() -> None:
    z, y = torch.randn(7, 1), (torch.arange(7) % 2).float()[:, None]
    binary, p = federation(), torch.sigmoid(z)
    expected = functional.binary_cross_entropy(p, y, reduction="none")[:, 0]
    torch.testing.assert_close(losses.criterion(binary, "probability")(p, y), expected)
    torch.testing.assert_close(losses.criterion(binary, "logit")(z, y), expected)

    z, y = torch.randn(7, 3), torch.arange(7) % 3
    multiclass = federation("multiclass")
    expected = functional.cross_entropy(z, y, reduction="none")
    torch.testing.assert_close(losses.criterion(multiclass, "logit")(z, y), expected)
    torch.testing.assert_close(losses.criterion(multiclass, "probability")(torch.softmax(z, 1), y), expected)
    torch.testing.assert_close(losses.criterion(multiclass, "log_probability")(torch.log_softmax(z, 1), y), expected)


ISIC = (0.87868852, 0.88131148, 0.82793443, 0.41206557)  # one minus the frequency of each lesion
HEART = (0.12939189, 0.18108108, 0.22331081, 0.22364865, 0.24256757)


def focal(name: str, outputs: int, **constants: object) -> losses.Criterion:
    client = Client("one", Split(torch.zeros(1, 2), torch.tensor([0])))
    fed = Federation("toy", (client,), "multiclass", classes=outputs, loss={"name": name, **constants})
    return losses.criterion(fed, "logit")


def test_focal_over_all_classes_equals_a_known_value() -> None:
    """Four classes with equal logits, gamma 1, target 0: the value of PLayer-FL's code."""
    loss = focal("focal_all_classes", 4, gamma=1.0, alpha=ISIC, scale=10.0)
    assert loss(torch.zeros(1, 4), torch.tensor([0])).item() == pytest.approx(3.0453, abs=5e-5)


@pytest.mark.parametrize(("alpha", "gamma"), [(ISIC, 1.0), (HEART, 3.0), ((0.15, 0.85), 1.0)])
def test_focal_over_all_classes_equals_its_sum_class_by_class(alpha: tuple[float, ...], gamma: float) -> None:
    n, k = 9, len(alpha)
    z, y = 3 * torch.randn(n, k, generator=torch.Generator().manual_seed(k)), torch.arange(n) % k
    expected = 0.0
    for p, label in zip(torch.softmax(z.double(), 1).tolist(), y.tolist(), strict=True):
        factor = sum((1 - alpha[j]) * p[j] ** gamma for j in range(k) if j != label)
        expected += 10 / (n * k) * -math.log(p[label]) * (alpha[label] * (1 - p[label]) ** gamma + factor)
    loss = focal("focal_all_classes", k, gamma=gamma, alpha=alpha, scale=10.0)
    assert loss(z, y).mean().item() == pytest.approx(expected, rel=1e-5)


def test_focal_over_all_classes_with_weights_of_one_is_focal() -> None:
    """The other classes then have no effect; the losses differ by the factor scale / classes."""
    z, y = torch.randn(6, 3), torch.arange(6) % 3
    plain = focal("focal", 3, gamma=2.0, alpha=[1.0] * 3)(z, y)
    torch.testing.assert_close(focal("focal_all_classes", 3, gamma=2.0, alpha=[1.0] * 3, scale=3.0)(z, y), plain)
    torch.testing.assert_close(
        plain, (1 - torch.softmax(z, 1)[range(6), y]) ** 2 * functional.cross_entropy(z, y, reduction="none")
    )


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"gamma": 1.0, "alpha": [0.5] * 3}, "toy: alpha has 3 weights, expected one for each of 2 classes"),
        ({"gamma": 1.0}, "toy: loss 'focal': missing a required argument: 'alpha'"),
        ({"gamma": 1.0, "alpha": [0.5] * 2, "scale": 3}, "loss 'focal': got an unexpected keyword argument 'scale'"),
    ],
)
def test_constants_that_do_not_belong_to_a_loss_are_refused(constants: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        focal("focal", 2, **constants)


@pytest.mark.parametrize("gamma", [1.0, 3.0])
def test_focal_over_all_classes_is_finite_where_the_output_is_certain(gamma: float) -> None:
    z = torch.tensor([[1e4, 0.0, -1e4]] * 3, requires_grad=True)
    losses = focal("focal_all_classes", 3, gamma=gamma, alpha=[0.2, 0.3, 0.5], scale=10.0)(z, torch.arange(3))
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(z.grad).all()


def test_probabilities_undo_the_output_kind() -> None:
    z, multiclass = torch.randn(5, 3), federation("multiclass")
    p = torch.softmax(z, 1)
    for kind, output in (("logit", z), ("log_probability", p.log()), ("probability", p)):
        torch.testing.assert_close(outputs.probabilities(multiclass, kind, output), p)
    torch.testing.assert_close(outputs.probabilities(federation(), "logit", z[:, :1]), torch.sigmoid(z[:, :1]))


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_a_saturated_sigmoid_has_a_finite_loss_and_gradient(target: float) -> None:
    z = torch.tensor([[-1e4], [-200.0], [200.0], [1e4]], requires_grad=True)
    found = losses.criterion(federation(), "probability")(torch.sigmoid(z), torch.full((4, 1), target))
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert torch.isfinite(z.grad).all()
    # A certain and correct output has loss 0; a certain and wrong one has the largest finite loss.
    right, wrong = (found[2:], found[:2]) if target else (found[:2], found[2:])
    assert right.detach().tolist() == [0, 0]
    assert bool((wrong > 80).all())


def test_a_saturated_softmax_has_a_finite_loss_and_gradient() -> None:
    z = torch.tensor([[1e4, 0.0, -1e4]] * 3, requires_grad=True)
    found = losses.criterion(federation("multiclass"), "probability")(torch.softmax(z, 1), torch.tensor([0, 1, 2]))
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(("name", "kind"), [("binary", "probability"), ("binary", "logit"), ("multiclass", "logit")])
def test_nan_stays_nan(name: str, kind: outputs.OutputKind) -> None:
    output = torch.full((2, 1 if name == "binary" else 3), torch.nan)
    y = torch.ones(2, 1) if name == "binary" else torch.tensor([0, 2])
    assert bool(torch.isnan(losses.criterion(federation(name), kind)(output, y)).all())


def test_a_model_with_random_draws_of_its_own_is_refused():
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(13, 1)

        def forward(self, x):
            return self.layer(torch.nn.functional.dropout(x, 0.5, self.training))

    fed = federation()
    with pytest.raises(SpecError, match=r"draws random numbers that no seed decides \(aten"):
        outputs.check_output(Model(Own()), "net", fed, fed.clients[0], fed.clients[0].train.x[:2])
