"""Selection of a setting: it depends on validation losses over rounds and seeds only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.sweep.search.selection import SearchResult, choose

SEEDS = (1, 2)


def record(*losses: float | None, status: str = "finished", score: float = 0.5) -> dict:
    return {"status": status, "aggregated": list(losses), "scores": [["latest", 0, 0, "accuracy", score]]}


DIVERGED = record(0.01, None, status="diverged")


def search(*records) -> SearchResult:
    settings = tuple({"lr": 10.0**-i} for i in range(len(records)))
    return SearchResult("fedavg", settings, SEEDS, records)


def test_the_mean_over_seeds_of_the_best_round_decides():
    # Best rounds: (0.5, 0.3) and (0.2, 0.4), means 0.4 and 0.3; the last rounds would choose the first setting.
    chosen = choose(search((record(0.9, 0.5), record(0.6, 0.3)), (record(0.2, 0.9), record(0.4, 0.9))))
    assert chosen.hyperparameters == {"lr": 0.1}
    assert chosen.loss == 0.30000000000000004
    assert chosen.records == (record(0.2, 0.9), record(0.4, 0.9))
    assert (chosen.method, chosen.rule, chosen.seeds, chosen.settings) == ("fedavg", "best-val", SEEDS, 2)


def test_the_first_in_grid_order_wins_ties():
    equal = (record(0.4), record(0.2))
    assert choose(search((record(0.5), record(0.5)), equal, equal)).hyperparameters == {"lr": 0.1}


def test_a_setting_with_a_diverged_run_is_worse_than_any_without():
    assert choose(search((record(0.1), DIVERGED), (record(9.0), record(9.0)))).hyperparameters == {"lr": 0.1}


def test_if_every_setting_diverged_the_first_is_chosen_without_a_loss():
    chosen = choose(search((DIVERGED, DIVERGED), (DIVERGED, record(0.1))))
    assert (chosen.hyperparameters, chosen.loss) == ({"lr": 1.0}, None)


def test_a_setting_with_a_missing_run_does_not_count_as_searched():
    chosen = choose(search((record(0.1), None), (record(0.5), record(0.5))))
    assert (chosen.hyperparameters, chosen.settings) == ({"lr": 0.1}, 1)


def test_rounds_without_a_loss_are_skipped():
    assert choose(search((record(None, 0.3), record(0.5, None)))).loss == 0.4


losses = st.floats(0, 10)
scores = st.floats(0, 1)


@given(st.lists(st.tuples(losses, losses), min_size=1, max_size=5), st.data())
def test_scores_change_no_choice(settings, data):
    """Any test scores give the same choice."""

    def scored() -> SearchResult:
        return search(*(tuple(record(loss, score=data.draw(scores)) for loss in pair) for pair in settings))

    assert choose(scored()).hyperparameters == choose(scored()).hyperparameters


@given(st.lists(st.tuples(losses, losses), min_size=1, max_size=5), st.integers(0, 5))
def test_a_diverged_setting_changes_no_choice_among_the_others(settings, place):
    finished = [(record(a), record(b)) for a, b in settings]
    chosen = choose(search(*finished)).records
    finished.insert(place, (record(0.0), DIVERGED))
    assert choose(search(*finished)).records == chosen


def test_runs_along_one_hyperparameter_have_equal_other_ones():
    settings = tuple({"lr": lr, "alpha_lr": alpha} for lr in (0.1, 0.2) for alpha in (1.0, 0.01))
    runs = tuple((record(float(i)),) for i in range(4))
    found = SearchResult("apfl", settings, (1,), runs).along("alpha_lr", {"lr": 0.2, "alpha_lr": 1.0})
    assert found == {1.0: runs[2], 0.01: runs[3]}
