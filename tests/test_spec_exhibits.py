"""What study files say of tables, figures and profiles: what it becomes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import spec
from bench.registry import folder
from bench.types import Budget, SpecError

STUDY = """
title = "A study"
paper = "global_layers"
seeds = [1, 2, 3]
[data]
name = "covertype"
[budget]
rounds = 15
local_steps = 100
[search]
kind = "random"
trials = 8
[methods.fedavg]
model = "logistic"
range.lr = { low = 1e-3, high = 1.0, log = true }
[methods.local]
model = "logistic"
grid.lr = [0.1, 0.01]
search = { kind = "grid" }
budget.rounds = 50
[methods.given]
algorithm = "fedavg"
model = "logistic"
fixed.lr = 0.1
"""
PROFILE = """
[profiles.short]
seeds = [1]
budget = { rounds = 2, local_epochs = 1 }
search = { kind = "tpe", trials = 2, batch = 1 }
methods.local.budget.rounds = 5
methods.local.grid.lr = [0.1]
"""
TABLE = """
[[tables]]
id = "mine/one"
metric = "auroc"
columns = "clients"
printed = "15:covertype:auroc"
rows = [
  { method = "FedAvg", of = "fedavg", checkpoints = ["latest"] },
  { method = "GL", of = "given", checkpoints = ["latest"], metric = "auroc_present" },
  { method = "Local", of = "local", checkpoints = ["best-test (oracle)", "best-val"] },
]
"""
FIGURES = """
[[figures]]
id = "mine/map"
kind = "heatmap"
title = "Map"
table = "mine/one"
[[figures]]
id = "mine/curves"
kind = "curves"
title = "Curves"
scores = ["accuracy", "validation"]
rows = [{ method = "FedAvg", of = "fedavg" }]
[[figures]]
id = "mine/watched"
kind = "trajectories"
title = "Watched"
of = "given"
[[figures]]
id = "mine/layers"
kind = "layers"
title = "Layers"
of = "local"
traces = ["sensitivity"]
[[figures]]
id = "mine/bars"
kind = "bars"
title = "Bars"
tables = ["mine/one"]
[[figures]]
id = "mine/partition"
kind = "partition"
title = "Partition"
"""
SEVERAL = """
[[data]]
name = "mnist"
label = "mnist:practical"
[[data]]
name = "cifar10"
"""


def facts_beside(rows: list[tuple[str, str, str]]) -> str:
    """A table of parameters whose rows (method, of, printed) name facts of the paper."""
    text = '[[tables]]\nid = "mine/facts"\nvalue = "parameters"\ncolumns = "clients"\nrows = ['
    for method, of, printed in rows:
        text += f'\n{{ method = "{method}", of = "{of}", checkpoints = ["latest"], printed = "{printed}" }},'
    return f"{text}\n]\n"


@pytest.fixture
def study(tmp_path):
    def read(text: str, profile: str = "paper") -> spec.StudySpec:
        file = tmp_path / "study.toml"
        file.write_text(text, encoding="utf-8")
        return spec.read(file, profile)

    return read


class TestProfiles:
    def test_the_file_as_it_stands_is_the_profile_paper(self, study, tmp_path):
        read = study(STUDY + PROFILE)
        assert (read.profile, read.seeds, read.stem("mine/one")) == ("paper", (1, 2, 3), "mine/one")
        assert spec.profile_names(tmp_path / "study.toml") == ["paper", "short"]

    def test_a_profile_lies_over_the_file_key_by_key(self, study):
        read = study(STUDY + PROFILE, "short")
        assert (read.profile, read.seeds, read.stem("mine/one")) == ("short", (1,), "mine/one-short")
        # Local epochs take the place of local steps; a method's own budget stays unless it is named.
        assert read.methods["fedavg"].budget == Budget(2, local_epochs=1)
        assert read.methods["local"].budget == Budget(5, local_epochs=1)
        assert (read.methods["fedavg"].search.kind, read.methods["fedavg"].tried) == ("tpe", 2)
        assert (read.methods["local"].search.kind, read.methods["local"].tried) == ("grid", 1)
        assert read.methods["given"].tried == 1

    def test_options_of_data_lie_over_those_of_every_data_set(self, study):
        one = '[data]\nname = "covertype"\n'
        text = STUDY.replace(one, SEVERAL) + "[profiles.short]\ndata = { partition = 'pathological' }\n"
        read = study(text, "short")
        assert [method.data.options["partition"] for method in read.methods.values()] == ["pathological"] * 6

    @pytest.mark.parametrize(
        ("changed", "expected"),
        [
            ("seed = [1]", "profiles.short: unknown key 'seed': did you mean 'seeds'?"),
            ("methods.fedavgg.fixed.lr = 1", "profiles.short.methods.fedavgg: did you mean 'fedavg'?"),
            ("budget = 3", "profiles.short.budget: expected a table"),
        ],
    )
    def test_a_profile_that_cannot_be_is_found_whatever_is_read(self, study, changed, expected):
        with pytest.raises(SpecError) as error:
            study(f"{STUDY}[profiles.short]\n{changed}\n")
        assert str(error.value).endswith(f"study.toml: {expected}")

    def test_a_value_that_cannot_be_is_blamed_on_the_profile(self, study):
        with pytest.raises(SpecError, match=r"study.toml, profile short: budget: rounds = 0: expected a whole number"):
            study(f"{STUDY}[profiles.short]\nbudget.rounds = 0\n", "short")

    def test_an_unknown_profile_is_answered_with_the_nearest(self, study):
        with pytest.raises(SpecError, match="no profile 'shrt': did you mean 'short'"):
            study(STUDY + PROFILE, "shrt")


class TestTables:
    def test_printed_numbers_are_those_of_single_clients(self, study):
        read = study(STUDY + TABLE)
        numbers = read.printed(read.tables["mine/one"])
        assert [number.value for number in numbers if (number.method, number.client) == ("GL", "comanche")] == [0.9209]
        assert {number.client for number in numbers} == {"all", "comanche", "neota", "poudre", "rawah"}

    def test_without_columns_of_clients_only_those_over_all_are_taken(self, study):
        read = study(STUDY + TABLE.replace('columns = "clients"\n', ""))
        assert [number.method for number in read.printed(read.tables["mine/one"])] == ["Centralized"]
        with pytest.raises(SpecError, match='single clients only; set columns = "clients"'):
            study(STUDY + TABLE.replace('columns = "clients"\n', "").replace("15:covertype", "15:heart_cohorts"))

    def test_a_row_may_name_facts_of_the_paper(self, study):
        rows = [
            ("FedAvg", "fedavg", "table8.parameters.gl"),
            ("GL", "given", "table1.covertype.poudre.train"),
        ]
        read = study(STUDY + facts_beside(rows))
        numbers = [(n.method, n.checkpoint, n.client, n.value) for n in read.printed(read.tables["mine/facts"])]
        poudre = ("GL", "latest", "all", 3509)  # of 3508
        counts = {"comanche": 915954, "neota": 915423, "poudre": 915600, "rawah": 915600}
        assert numbers == [*(("FedAvg", "latest", client, count) for client, count in counts.items()), poudre]

    def test_a_fact_may_have_a_radius(self, study):
        text = STUDY.replace("global_layers", "fenda") + facts_beside([("FENDA-FL", "given", "table12.1.dice")])
        read = study(text.replace('columns = "clients"\n', ""))
        (number,) = read.printed(read.tables["mine/facts"])
        assert (number.value, number.ci95, number.client) == (0.9864, 0.0002, "all")

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            ("parameters.gl", "parameter.gl", "'table8.parameter.gl' does not stand in paper.toml, no 'parameter'"),
            ("table8.parameters.gl", "title", "printed = 'title' is 'Global"),
            ("table8.parameters.gl", "table8", "expected numbers"),
            ('columns = "clients"\n', "", 'single clients only; set columns = "clients"'),
            ('["latest"]', '["latest", "local"]', "printed is the number of one cell; name one of the checkpoints"),
            ("rows = ", 'printed = "15:covertype:auroc"\nrows = ', "in the table and in a row of it; leave one out"),
            (
                '"global_layers"',
                '"global_layer"',
                "paper = 'global_layer' has no printed numbers: did you mean 'global_layers'",
            ),
        ],
    )
    def test_a_fact_that_cannot_stand_beside_a_row(self, study, old, new, expected):
        text = STUDY + facts_beside([("FedAvg", "fedavg", "table8.parameters.gl")])
        with pytest.raises(SpecError) as error:
            study(text.replace(old, new))
        assert expected in str(error.value)

    def test_printed_numbers_are_taken_in_our_unit(self, study):
        read = study(STUDY + TABLE.replace("[[tables]]", "[[tables]]\nprinted_unit = 0.01"))
        assert max(number.value for number in read.printed(read.tables["mine/one"])) < 0.01

    def test_methods_held_against_are_behind_a_table(self, study):
        value = 'value = "participation"\nagainst = ["local", "given"]\n'
        text = TABLE[: TABLE.index("rows")].replace('columns = "clients"\nprinted = "15:covertype:auroc"\n', value)
        read = study(STUDY + text + 'rows = [{ method = "FedAvg", of = "fedavg" }]\n')
        assert read.methods_behind(["mine/one"], []) == {"fedavg", "local", "given"}

    def test_a_method_held_against_is_one_of_the_studys(self, study):
        table = TABLE.replace('columns = "clients"', 'value = "participation"\nagainst = ["local", "gvien"]')
        with pytest.raises(SpecError, match=r"tables\[0\]\.against = 'gvien': did you mean 'given'"):
            study(STUDY + table)

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            ('value = "participation"', "needs against = [local training, FedAvg]"),
            ('against = ["local", "given"]', 'against has no meaning for value = "mean"'),
            ('center = "median"', 'center = "median" has an interval = "bootstrap" only'),
            (
                'value = "participation"\nagainst = ["local", "given"]',
                'columns = "clients" has no meaning for value = "participation"',
            ),
            ('value = "faimess"', "value = 'faimess'"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, study, key, expected):
        with pytest.raises(SpecError) as error:
            study(STUDY + TABLE.replace("[[tables]]", f"[[tables]]\n{key}"))
        assert expected in str(error.value)


class TestFigures:
    def test_what_is_behind_each(self, study):
        read = study(STUDY + TABLE + FIGURES)
        behind = {name: read.methods_behind([], [name]) for name in read.figures}
        every = {"fedavg", "given", "local"}
        assert behind == {
            "mine/map": every,
            "mine/curves": {"fedavg"},
            "mine/watched": {"given"},
            "mine/layers": {"local"},
            "mine/bars": every,
            "mine/partition": set(),
        }
        assert read.figures["mine/curves"].metrics == {"accuracy"}
        assert read.shown_data(read.figures["mine/partition"]).name == "covertype"

    def test_of_several_data_sets_there_is_one_for_each(self, study):
        table = TABLE.replace("15:covertype:auroc", "1:{data}:accuracy").replace('columns = "clients"\n', "")
        text = STUDY.replace('[data]\nname = "covertype"\n', SEVERAL).replace("global_layers", "apple")
        with pytest.raises(SpecError, match="printed = '1:cifar10:accuracy'"):  # that partition has no name
            study(text + table)
        read = study(text + table.replace('printed = "1:{data}:accuracy"\n', "") + FIGURES)
        assert list(read.tables) == ["mine/one-mnist-practical", "mine/one-cifar10"]
        assert "mine/map-cifar10" in read.figures
        assert read.figures["mine/map-mnist-practical"].table == "mine/one-mnist-practical"
        assert read.figures["mine/bars-cifar10"].tables == ["mine/one-cifar10"]
        assert read.figures["mine/watched-cifar10"].of == "given@cifar10"
        assert [row.of for row in read.figures["mine/curves-cifar10"].rows] == ["fedavg@cifar10"]
        assert read.shown_data(read.figures["mine/partition-cifar10"]).name == "cifar10"

    def test_a_figure_may_name_one_of_several_data_sets_itself(self, study):
        text = STUDY.replace('[data]\nname = "covertype"\n', SEVERAL)
        alpha = '[[figures]]\nid = "a"\nkind = "trajectories"\ntitle = "A"\nof = "given@cifar10"\n'
        assert list(study(text + alpha).figures) == ["a"]


EXPERIMENTS = sorted(file for file in folder("experiments").glob("*/*.toml") if "[methods." in file.read_text())


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_profile_of_the_experiments_can_be_read_and_is_smaller(file: Path):
    def cost(study: spec.StudySpec) -> int:
        return len(study.seeds) * sum(method.tried * method.budget.rounds for method in study.methods.values())

    paper, *others = spec.profile_names(file)
    assert all(cost(spec.read(file, profile)) < cost(spec.read(file, paper)) for profile in others)


def test_joint_tables_of_the_experiments_can_be_read():
    assert {name: file.printed_ranks(file.tables[name]) is not None for name, file in spec.joint("tables").items()}
    assert spec.joint("figures") is not None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("Table 6", ["6"]),
        ("section 4.3 and Figure 2", []),
        ("appendix B.2 and Tables 9 and 11", ["9", "11"]),
        ("Tables 1, 3 and 5 to 7", ["1", "3", "5", "6", "7"]),
        ("Tables A.3 and A.4, captions", ["A3", "A4"]),
        ("Tables A.9 to A.11 and Table 2", ["A9", "A10", "A11", "2"]),
    ],
)
def test_tables_that_a_claim_is_about(where, expected):
    assert list(spec.tables_named("p", where)) == [f"p/{table}" for table in expected]
