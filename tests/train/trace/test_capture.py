"""A captured function returns what the function returns, also for arguments that it was not traced with."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn
from torch.func import grad, vmap

from bench.models.functional import Model
from bench.models.tabular import mlp
from bench.native.kernel import operation
from bench.train.optim.optimizers import AdamW
from bench.train.trace.capture import Captured
from tests.reference import models


def fresh(*shapes: tuple[int, ...], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def assert_replays(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> Captured:
    """Trace with one set of arguments and compare on others, twice: a replay must not change the next one."""
    captured = Captured(function, *fresh(*shapes, seed=0))
    for seed in (1, 2, 1):
        arguments = fresh(*shapes, seed=seed)
        before = [argument.clone() for argument in arguments]
        torch.testing.assert_close(captured(*arguments), function(*arguments))
        torch.testing.assert_close(arguments, before)
    return captured


def test_stacked_gradients_of_a_network() -> None:
    model = Model(mlp((4,), 1, hidden=3))

    def loss(w: Tensor, x: Tensor) -> Tensor:
        return (model(w, x).output ** 2).mean()

    assert_replays(vmap(vmap(grad(loss)), in_dims=(0, None)), (2, 3, model.size), (3, 5, 4))


def test_trees_of_arguments_and_results() -> None:
    def function(tree: dict[str, Tensor], number: Tensor) -> dict[str, tuple[Tensor, ...]]:
        return {"sums": (tree["a"] + number, tree["b"] * number), "same": (tree["a"],)}

    a, b, number = fresh((2,), (3,), (), seed=1)
    captured = Captured(function, {"a": torch.zeros(2), "b": torch.zeros(3)}, torch.tensor(0.0))
    torch.testing.assert_close(captured({"a": a, "b": b}, number), function({"a": a, "b": b}, number))


def test_a_new_key_draws_a_new_dropout_mask() -> None:
    model = Model(nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 1)))
    captured = Captured(lambda key, x: model(model.initial, x, key).features, torch.tensor(1), torch.ones(4, 50))
    first, second = (captured(torch.tensor(key), torch.ones(4, 50)) for key in (2, 3))
    assert not torch.equal(first, second)
    assert torch.equal(first, model(model.initial, torch.ones(4, 50), torch.tensor(2)).features)


def test_one_tensor_given_twice_is_two_arguments() -> None:
    same = torch.ones(3)
    captured = Captured(lambda a, b: a - 2 * b, same, same)
    a, b = fresh((3,), (3,), seed=1)
    torch.testing.assert_close(captured(a, b), a - 2 * b)


@pytest.mark.parametrize("stacked", [False, True])
def test_running_statistics_of_batch_norm(stacked: bool) -> None:
    model = Model(models.mlp(4, hidden=3, batch_norm=True))

    def step(w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        key = torch.tensor(0)
        gradient, moved = grad(lambda w: ((p := model(w, x, key)).output.mean(), p.w), has_aux=True)(w)
        return gradient, moved

    lead = (2,) if stacked else ()
    assert_replays(vmap(step) if stacked else step, (*lead, model.size), (*lead, 6, 4))
    w, x = fresh((model.size,), (6, 4), seed=3)
    assert not torch.equal(step(w, x)[1], w)


def into_columns(x: Tensor) -> Tensor:
    out = torch.zeros(3, 2)
    out[:, 0] = x
    out[:, 1] = 2 * x
    return out + 1


def onto_zeros(x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for factor in (1, 2, 3):
        total += factor * x
    return total


def filled_later(x: Tensor) -> Tensor:
    buffer = torch.zeros(3)
    early = buffer + 1
    buffer.fill_(3.0)
    return x * early + buffer


def through_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y.view(3, 1)[1].mul_(5)
    return y


def constants(x: Tensor) -> Tensor:
    table = torch.arange(3).sqrt() + torch.eye(3).sum(0)
    return x * table + torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("function", [into_columns, onto_zeros, filled_later, through_a_view, constants])
def test_writing_in_place_and_constants(function: Callable[[Tensor], Tensor]) -> None:
    assert_replays(function, (3,))


def test_a_result_that_depends_on_no_argument() -> None:
    captured = Captured(lambda x: (x + 1, torch.ones(2)), torch.zeros(3))
    torch.testing.assert_close(captured(torch.ones(3)), (torch.full((3,), 2.0), torch.ones(2)))


def by_sign(x: Tensor) -> Tensor:
    return x * 2 if x.sum().item() > 0 else x - 1


def by_comparison(x: Tensor) -> Tensor:
    return -x if x[0] > x[1] else x


@pytest.mark.parametrize("function", [by_sign, by_comparison])
def test_a_function_that_looks_at_numbers_is_run_as_written(function: Callable[[Tensor], Tensor]) -> None:
    captured = Captured(function, torch.ones(2))
    for x in ([1.0, 2.0], [-1.0, -2.0], [2.0, 1.0]):
        torch.testing.assert_close(captured(torch.tensor(x)), function(torch.tensor(x)))


def test_a_count_kept_between_calls_continues() -> None:
    # With momentum None, batch-norm averages over all batches so far: the share of a batch is 1 / their number.
    captured, plain = nn.BatchNorm1d(2, momentum=None), nn.BatchNorm1d(2, momentum=None)
    batches = fresh(*[(5, 2)] * 4, seed=0)
    replay = Captured(captured, batches[0])
    captured.reset_running_stats()
    for batch in batches:
        replay(batch)
        plain(batch)
    torch.testing.assert_close(captured.running_mean, plain.running_mean)
    assert captured.num_batches_tracked == plain.num_batches_tracked == 4


@pytest.mark.parametrize("draw", [lambda x: x + torch.rand(20), lambda x: x + torch.empty(20).uniform_()])
def test_random_numbers_are_drawn_in_every_call(draw: Callable[[Tensor], Tensor]) -> None:
    captured = Captured(draw, torch.zeros(20))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        replayed = [captured(torch.zeros(20)) for _ in range(3)]
        torch.manual_seed(0)
        expected = [draw(torch.zeros(20)) for _ in range(3)]
    torch.testing.assert_close(replayed, expected)


def nodes(captured: Captured) -> Iterable[fx.Node]:
    return captured.flat.__self__.graph.nodes  # type: ignore[attr-defined]


def names(captured: Captured) -> list[str]:
    targets = [str(node.target) for node in nodes(captured)]
    return [target.removeprefix("aten.").removeprefix("silobench.").partition(".")[0] for target in targets]


def in_place(captured: Captured) -> list[str]:
    return [name for name in names(captured) if name.endswith("_")]


def test_values_that_nothing_reads_again_are_overwritten() -> None:
    captured = assert_replays(lambda a, b: (a * b + 1).abs().sqrt() - b, (50,), (50,))
    assert in_place(captured) == ["add_", "abs_", "sqrt_", "sub_"]


def test_the_second_summand_may_be_overwritten() -> None:
    assert in_place(assert_replays(lambda a, b: a + b.exp(), (5,), (5,))) == ["add_"]


CONSTANT = torch.arange(6.0)
NEEDED = {
    "read later": lambda a: (b := a * 2, b + 1, b * 3),
    "read later through a view": lambda a: (c := (b := a * 2).view(2, 3), (b + 1).view(2, 3) * c),
    "a view of what is read later": lambda a: (b := a * 2, b.view(2, 3) + 1),
    "given": lambda a: (a.view(2, 3) + 1,),
    "a constant": lambda a: ((CONSTANT + 1) * a,),
    "a view of a constant": lambda a: (CONSTANT.view(2, 3) * a.view(2, 3),),
    "spread over a larger one": lambda a: ((a * 2)[:1].expand(6) + a,),
    "of another type": lambda a: ((a * 2).long() + a,),
    "its own other operand, turned": lambda a: ((b := (a * 2)[:4].view(2, 2)) + b.T,),
}


@pytest.mark.parametrize("case", NEEDED)
def test_values_that_are_needed_are_not_overwritten(case: str) -> None:
    assert_replays(NEEDED[case], (6,))
    torch.testing.assert_close(CONSTANT, torch.arange(6.0))


def drawn(seed: int, *given: Tensor) -> list[Tensor]:
    """Return a random function: arithmetic, views and sums of arguments, constants and earlier results."""
    draw, pool = random.Random(seed), [*given, torch.ones(4, 4)]
    for _ in range(25):
        a, b = draw.choice(pool[-6:]), draw.choice(pool)
        pool.append(draw.choice([
            lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: torch.tanh(a),
            lambda a, b: a.T, lambda a, b: a.view(2, 8).view(4, 4) if a.is_contiguous() else a.abs(),
            lambda a, b: a[:1].expand(4, 4), lambda a, b: a.sum(0) + b, lambda a, b: torch.cat([a[:2], b[2:]]),
            lambda a, b: torch.lerp(a, b, 0.3), lambda a, b: a.clone().add_(b),
        ])(a, b).clamp(-9, 9) if draw.random() < 0.9 else b.T)  # fmt: skip
    return pool


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_programs_drawn_at_random(seed: int) -> None:
    assert_replays(lambda *given: drawn(seed, *given)[-3:], (4, 4), (4, 4))


# Functions of their own results ---------------------------------------------------------------------------------------


def assert_goes_on(step: Callable[..., list[Tensor]], state: list[Tensor], *fixed: Tensor, steps: int = 5) -> Captured:
    """Compare a captured step that may overwrite its state with the plain step; other tensors must not change."""
    kept = [each.clone() for each in fixed]
    captured = Captured(step, [each.clone() for each in state], *fixed, iterated=True)
    found, expected = [each.clone() for each in state], state
    for _ in range(steps):
        found, expected = captured(found, *fixed), step(expected, *fixed)
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(list(fixed), kept)
    return captured


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_steps_drawn_at_random(seed: int) -> None:
    """Results may be the state itself, in another order or twice, views of each other, or constants."""

    def step(state: list[Tensor], fixed: Tensor) -> list[Tensor]:
        pool = drawn(seed, *state, fixed)
        return [each.contiguous() for each in random.Random(seed).choices(pool, k=3)]

    assert_goes_on(step, fresh((4, 4), (4, 4), (4, 4), seed=1), fresh((4, 4), seed=2)[0])


def test_the_state_is_overwritten() -> None:
    captured = assert_goes_on(
        lambda state, x: [state[0] - 0.1 * x, state[1] * x], fresh((50,), (50,), seed=0), torch.ones(50)
    )
    assert in_place(captured) == ["sub_", "mul_"]


SHARED = {
    "one result twice": lambda state, x: [new := state[0] * x + state[1], new],
    "a view of another": lambda state, x: [new := state[0] * x + state[1], new.view(6)],
    "spread": lambda state, x: [(state[0] * 2).sum().expand(6), state[1] + x],
    "exchanged": lambda state, x: [state[1] * x + state[0], state[0]],
    "what is fixed": lambda state, x: [x, state[0] * 2 + state[1]],
    "a constant": lambda state, x: [CONSTANT, state[0] * 2 + state[1]],
    "computed once": lambda state, x: [CONSTANT + 1, state[0] * 2 + state[1]],
}


@pytest.mark.parametrize("case", SHARED)
def test_a_state_in_shared_memory_is_not_overwritten(case: str) -> None:
    assert_goes_on(SHARED[case], fresh((6,), (6,), seed=0), torch.arange(6.0))
    torch.testing.assert_close(CONSTANT, torch.arange(6.0))


def test_a_kernel_overwrites_weights_and_moments() -> None:
    """The kernel takes the gradient in the parts in which autograd returns it."""

    def loss(w: Tensor, x: Tensor) -> Tensor:
        first, second = torch.split(w, [20, 30])
        return ((first * x).sum() - torch.tanh(second).sum()) ** 2

    def step(state: list[Tensor], x: Tensor) -> list[Tensor]:
        w, m, v, t = state
        gradient = grad(loss)(w, x)
        w, moments = AdamW(lr=0.1).step(w, gradient, {"m": m, "v": v, "t": t})
        return [w, *moments.values()]

    state = [*fresh((50,), seed=0), torch.zeros(50), torch.zeros(50), torch.zeros(())]
    captured = assert_goes_on(step, state, torch.linspace(0, 1, 20))
    assert "adamw_" in in_place(captured)
    assert "cat" not in names(captured)


def test_weights_without_a_gradient() -> None:
    """Part of the gradient is a constant, zero, which the kernel takes like the other parts."""

    def step(state: list[Tensor], x: Tensor) -> list[Tensor]:
        w, m, v, t = state
        gradient = grad(lambda w: (torch.split(w, [20, 30])[0] * x).sum() ** 2)(w)
        w, moments = AdamW(lr=0.1).step(w, gradient, {"m": m, "v": v, "t": t})
        return [w, *moments.values()]

    assert_goes_on(step, [*fresh((50,), seed=0), torch.zeros(50), torch.zeros(50), torch.zeros(())], torch.ones(20))


@operation("test_total(Tensor[] x, Tensor[] y) -> Tensor", concatenates="y")
def total(x: list[Tensor], y: list[Tensor]) -> Tensor:
    return torch.stack([each.sum() for each in [*x, *y]]).sum()


def test_an_operation_takes_the_tensors_of_a_concatenation() -> None:
    def step(state: list[Tensor], x: Tensor) -> list[Tensor]:
        halves, pair = torch.cat([torch.tanh(x), x + 1]), torch.cat([x, torch.zeros(3).add(1)])
        return [state[0] * 0.5 + total([halves], [x, halves, pair, x.sin()])]

    captured = assert_goes_on(step, fresh((10,), seed=0), torch.ones(5))
    assert names(captured).count("cat") == 1  # of the first argument
    (lists,) = [node.args for node in nodes(captured) if node.target is torch.ops.silobench.test_total.default]
    assert [len(each) for each in lists] == [1, 6]


def test_parts_that_change_are_joined_first() -> None:
    def step(state: list[Tensor], x: Tensor) -> list[Tensor]:
        first, second = torch.tanh(x), x + 1
        gradient = torch.cat([first, second])
        first.mul_(0)
        return [AdamW(lr=0.1).step(state[0], gradient, AdamW().init(state[0]))[0] + first.sum()]

    assert_goes_on(step, fresh((10,), seed=0), torch.ones(5))


def test_tracing_does_not_import_the_compiler_of_torch() -> None:
    """It takes a second of every command that only checks a study; the derivatives of training import it anyway."""
    program = """
import sys, torch
from bench.train.trace.capture import Captured
Captured(lambda x: x * torch.arange(3), torch.ones(3))(torch.ones(3))
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
