"""The report in a headless browser: Debian's Chromium, never a downloaded one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from PIL import Image

from bench.report.audit.claims import ClaimPart
from bench.report.audit.findings import Audit, AuditFinding
from bench.report.site import document, pages
from bench.report.site.content import Exhibit, Page, Picture, TrainingTime
from bench.report.tables.build import build
from bench.report.tables.render import content
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number

pytestmark = pytest.mark.slow
SCRIPT = "<script>document.title = 'taken'</script>"
HOSTILE = (
    SCRIPT,
    '"><img src=x onerror="document.title=\'taken\'">',
    "</style></td><script>alert(1)</script>",
    "{{ 7 * 7 }} &amp; é 'quoted'",
)
SPEC = TableSpec(
    id="paper/1",
    title="Table 1: the heart",
    dataset="heart",
    metric="accuracy",
    rows=(
        Row("FedAvg", "fedavg"),
        Row("FENDA-FL", "fenda", checkpoints=("local",)),
        Row("Ditto", "ditto", checkpoints=("local",)),
        Row("Silo", "local", checkpoints=("local",)),
    ),
    notes=("Seeds differ from the paper's.",),
)
PRINTED = [
    Number("FedAvg", "global", 0.700, 0.01),
    Number("FedAvg", "local", 0.650, None),
    Number("FENDA-FL", "local", 0.600, 0.0),
    Number("Ditto", "local", 0.800, 0.0),
    Number("Silo", "local", 0.748, 0.0),
]
NOTES = f"""# What holds

One cell is *off*, see [the paper](https://example.org/paper) and [a file](../printed.csv). {SCRIPT}

![a picture](https://example.org/picture.png)

| cell | ours |
|:-----|-----:|
| FENDA-FL, a method with quite a long name, so long that it does not fit on a phone | 0.905 |
"""


@pytest.fixture(scope="module")
def chosen(choice, record):
    def run(number, *scores):
        spec = {"data": {"fingerprint": "f" * 64, "name": HOSTILE[0]}, "seed": 2021 + number}
        more = {"run": f"{number:016x}", "spec": spec, "path": "stack", "versions": {"torch": "2.15.0"}}
        return record(scores, sha256=f"{number:064x}", **more)

    return {
        "fedavg": choice(run(1, 0.70, 0.70), run(2, 0.72, 0.70)),
        "fenda": choice(run(3, 0.90, 0.90), run(4, 0.92, 0.90), lr=0.1),
        "ditto": choice(run(5, 0.90, 0.90), None),
        "local": choice(run(6, 0.74, 0.76), run(7, 0.76, 0.76)),
    }


@pytest.fixture(scope="module")
def exhibit(chosen):
    return Exhibit(build(SPEC, chosen, PRINTED), chosen)


@pytest.fixture(scope="module")
def by_client(chosen):
    """A table whose columns are clients, each with a printed number, summed up by mean ranks."""
    rows = tuple(row.model_copy(update={"checkpoints": ("local",)}) for row in SPEC.rows)
    spec = SPEC.model_copy(
        update={"id": "paper/2", "title": "Table 2: by client", "rows": rows, "columns": "clients", "summary": "rank"}
    )
    printed = [Number(row.method, "local", 0.8, 0.0, client) for row in rows for client in ("north", "south")]
    return Exhibit(build(spec, chosen, printed), chosen)


@pytest.fixture(scope="module")
def folder(exhibit, by_client, chosen, tmp_path_factory):
    """A report of two papers, the second one with nothing but hostile names."""
    place = tmp_path_factory.mktemp("site")
    Image.new("RGB", (2100, 780), "white").save(place / "figure.png", dpi=(300, 300))
    rows = tuple(Row(name, key, checkpoints=("local",)) for name, key in zip(HOSTILE, chosen, strict=True))
    stranger = TableSpec(
        id="x",
        title=HOSTILE[0],
        dataset=HOSTILE[2],
        metric="accuracy",
        rows=rows,
        silo=HOSTILE[3],
        profile="short",
    )
    table = build(stranger, chosen)
    parts = tuple(ClaimPart(name, name, name, False) for name in HOSTILE)
    audit = Audit("paper", "A paper", (
        AuditFinding("best", "section 1", "it is the best of all", "does not follow", parts, HOSTILE[0]),
        AuditFinding("all", "Table 2", "it is above all others, in whatever way one looks at it", "follows", parts, ""),
        AuditFinding("none", "Figure 1", "it is never below", "cannot be checked", (), "no numbers are printed"),
    ))  # fmt: skip
    made = [
        Page(
            paper="paper",
            title="A paper",
            exhibits=(exhibit, by_client),
            pictures=(Picture("paper/1", "Figure 1", place / "figure.png", "Bar chart of accuracy"),),
            absent=("Table 3: what nobody has run",),
            notes=NOTES,
            audit=audit,
            costs=(TrainingTime("Linux, 2 cores", 5, 3000.0), TrainingTime("Linux, 2 cores", 5, 720.0)),
        ),
        Page(paper=HOSTILE[0], title=HOSTILE[1], exhibits=(Exhibit(table, chosen),), notes=HOSTILE[1]),
    ]
    document.write(document.documents(made), place / "report")
    return place / "report"


@pytest.fixture(scope="module")
def chromium(program):
    place = program("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open a page at some width and colour scheme; whatever it says, asks for or throws is in ``heard``."""
    contexts = []

    def open_page(file, width=1280, scheme="light", heard=None):
        context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        heard = [] if heard is None else heard
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: heard.append(dialog.message))
        page.on("request", lambda request: heard.append(request.url) if not request.url.startswith("data:") else None)
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def column(page, heading):
    """Return the cells below ``heading`` in the first table of the paper, from the top."""
    return page.evaluate(
        """heading => {
            const table = document.querySelector(".exhibit table");
            const place = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === heading);
            return [...table.tBodies[0].rows].map((row) => row.cells[place].textContent.trim());
        }""",
        heading,
    )


def test_pages_say_nothing_and_ask_for_nothing(folder, visit):
    for file in sorted(folder.iterdir()):
        heard = []
        unfold(visit(file, heard=heard))
        assert heard == [file.as_uri()]


def test_hostile_names_are_words(folder, visit):
    overview = visit(folder / "index.html")
    overview.get_by_role("link", name=HOSTILE[1], exact=True).click()
    page = overview
    assert page.title() == f"{HOSTILE[1]} - silobench"
    unfold(page)
    words = page.locator("main").inner_text()
    for name in HOSTILE:
        assert name in words
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0


def test_even_markup_that_got_through_could_do_nothing(folder, visit):
    """The page's own policy: no script, style or request but those written here."""
    heard = []
    page = visit(folder / "paper.html", heard=heard)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.text = "document.title = 'taken'";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", '<img src="https://example.org/x.png" onerror="alert(1)">');
    }""")
    page.wait_for_timeout(100)
    assert page.title() == "A paper - silobench"
    assert sum("Content Security Policy" in line for line in heard) >= 2


def test_every_link_leads_somewhere(folder, visit):
    files = {file.name: visit(file) for file in folder.iterdir()}
    ids = {
        name: page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)") for name, page in files.items()
    }
    for name, page in files.items():
        assert len(ids[name]) == len(set(ids[name]))
        for link in page.evaluate("[...document.querySelectorAll('a')].map((a) => a.href)"):
            parts = urlsplit(link)
            if parts.scheme == "file":
                target = Path(unquote(parts.path)).name
                assert target in files
                # An address names an id with each of its characters written out or as it is.
                assert not parts.fragment or {parts.fragment, unquote(parts.fragment)} & set(ids[target])
            else:
                assert parts.scheme == "data" or link == "https://example.org/paper"
    page = files["index.html"]
    page.get_by_role("link", name="Table 1: the heart").click()
    assert page.url.startswith((folder / "paper.html").as_uri() + "#")
    assert page.get_by_role("heading", name="Table 1: the heart").first.is_visible()
    assert page.evaluate("document.querySelector(':target')?.tagName") == "SECTION"


def test_a_table_downloads_as_it_is_written_elsewhere(folder, visit, exhibit, tmp_path):
    page = visit(folder / "paper.html").locator(".exhibit").first
    for link, form in (("csv, all digits", "csv"), ("LaTeX", "tex")):
        with page.page.expect_download() as started:
            page.get_by_role("link", name=link).click()
        assert started.value.suggested_filename == f"paper-1.{form}"
        assert Path(started.value.path()).read_bytes() == content(exhibit.table, form)


@pytest.mark.parametrize("press", ["click", "Enter", "Space"])
def test_columns_are_sorted_by_mouse_and_keyboard(folder, visit, press):
    page = visit(folder / "paper.html")
    head = page.locator(".exhibit th", has_text="Ours").first
    button = head.get_by_role("button")

    def sort():
        if press == "click":
            button.click()
        else:
            button.press(press)

    printed = ["0.705 ± 0.064", "0.705 ± 0.064", "0.905 ± 0.064*", "missing 1/2", "0.755 ± 0.064"]
    assert column(page, "Ours") == printed
    assert head.get_attribute("aria-sort") == "none"
    sort()
    assert column(page, "Ours") == [*printed[:2], printed[4], printed[2], printed[3]]
    assert head.get_attribute("aria-sort") == "ascending"
    sort()
    assert column(page, "Ours") == [printed[2], printed[4], *printed[:2], printed[3]]
    assert head.get_attribute("aria-sort") == "descending"
    sort()
    assert column(page, "Ours") == printed
    assert head.get_attribute("aria-sort") == "none"


def test_columns_are_sorted_by_value_not_by_text(folder, visit):
    page = visit(folder / "paper.html")
    for heading, expected in (
        ("Difference", ["+0.005", "+0.007", "+0.055", "+0.305", ""]),
        ("Verdict", ["agrees", "agrees", "agrees", "off", "missing"]),
        ("Method", ["Ditto", "FedAvg", "FedAvg", "FENDA-FL", "Silo"]),
    ):
        page.locator(".exhibit").get_by_role("button", name=heading).first.click()
        assert column(page, heading) == expected
    assert page.locator(".exhibit th[aria-sort=ascending]").count() == 1


def test_checked_numbers_are_sorted_by_size_and_those_that_do_not_follow_stand_first(visit, tmp_path):
    printed = ["11,340", "385", "4,772", "−5", "0.724 ± 0.001", "0.7 ± 0.1", "none"]
    parts = tuple(ClaimPart(f"part {number}", text, "1", text != "385") for number, text in enumerate(printed))
    audit = Audit("paper", "A paper", (AuditFinding("sum", "Table 1", "they add up", "does not follow", parts, ""),))
    document.write(document.documents([Page("paper", "A paper", audit=audit)]), tmp_path)
    page = visit(tmp_path / "paper.html")
    unfold(page)
    shown = page.locator(".finding tbody tr td:nth-child(2)")
    assert shown.all_inner_texts() == ["385", *(text for text in printed if text != "385")]
    page.locator(".finding").get_by_role("button", name="Printed").click()
    assert shown.all_inner_texts() == ["−5", "0.7 ± 0.1", "0.724 ± 0.001", "385", "4,772", "11,340", "none"]


def test_a_table_that_is_not_compared_says_so_and_comes_last(exhibit, chosen, visit, tmp_path):
    alone = Exhibit(build(SPEC.model_copy(update={"id": "paper/0", "title": "Table 0"}), chosen), chosen)
    document.write(document.documents([Page("paper", "A paper", (alone, exhibit))]), tmp_path)
    page = visit(tmp_path / "index.html")
    for _ in ("ascending", "descending"):
        page.get_by_role("button", name="Cells").click()
        assert "not compared" in page.locator(".standing tbody tr").last.inner_text()
    page = visit(tmp_path / "paper.html")
    assert "not compared with printed numbers" in page.locator(".exhibit .chips").first.inner_text()


def test_what_a_printed_single_run_is_held_against_is_said_and_drawn(exhibit, chosen, visit, tmp_path):
    single = Exhibit(build(SPEC.model_copy(update={"id": "paper/3", "one_run": True}), chosen, PRINTED), chosen)
    document.write(document.documents([Page("paper", "A paper", (exhibit, single))]), tmp_path)
    several, one = visit(tmp_path / "paper.html").locator(".exhibit").all()
    words = "a further run of ours may fall"
    assert words not in several.inner_text()
    assert words in one.locator("caption").first.inner_text()
    assert words in one.locator(".key").inner_text()
    assert several.locator(".reach").count() == 0
    assert one.locator("tbody .reach").count() == 4  # of five printed numbers one has none of ours


def test_single_clients_are_said_to_have_no_asterisk(folder, visit):
    page = visit(folder / "paper.html")
    unfold(page)
    whole, clients = page.locator(".exhibit").first.locator("caption").all_inner_texts()[:2]
    assert "* better than Silo" in whole
    assert clients == "Shown: accuracy on heart, on each client's test samples, mean ± radius of its 95 % interval."


def test_dark_and_light_follow_the_system_until_told(folder, visit):
    def paper(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = visit(folder / "index.html"), visit(folder / "index.html", scheme="dark")
    white, black = paper(light), paper(dark)
    assert white != black
    light.get_by_role("button", name="Dark mode").click()
    assert paper(light) == black
    light.goto((folder / "paper.html").as_uri())
    assert paper(light) == black
    light.get_by_role("button", name="Light mode").click()
    assert paper(light) == white
    dark.get_by_role("button", name="Light mode").click()
    assert paper(dark) == white


def in_view(page, element):
    box = element.bounding_box()
    return box is not None and box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"]


def test_on_a_phone_every_verdict_is_visible_without_scrolling_sideways(folder, visit):
    overview = visit(folder / "index.html", width=390)
    answer = overview.locator(".answer .total").first
    assert answer.inner_text() == "6 of 13 cells agree"
    assert in_view(overview, answer)
    assert answer.bounding_box()["y"] < 844  # on the first screen
    page = visit(folder / "paper.html", width=390)
    verdicts = page.locator(".exhibit").first.locator("tbody .verdict")
    assert verdicts.count() == 5
    assert all(in_view(page, verdict) for verdict in verdicts.all())


def test_a_page_has_a_table_of_contents_at_every_width(folder, visit):
    for width, role_name in ((390, "Contents"), (1280, "On this page")):
        page = visit(folder / "paper.html", width=width)
        if width < 1000:
            page.get_by_text("On this page", exact=True).click()
        contents = page.get_by_role("navigation", name=role_name)
        contents.get_by_role("link", name="What holds").or_(
            contents.get_by_role("link", name="Table 1: the heart")
        ).first.click()
        assert page.url.endswith("#table-paper%252F1")


def test_on_a_phone_tables_scroll_in_their_own_box(folder, visit):
    for file in folder.iterdir():
        page = visit(file, width=360)
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    page = visit(folder / "paper.html", width=360)
    box = page.locator(".exhibit .wide").first
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    first = box.locator("tbody th").first
    left = first.bounding_box()["x"]
    box.focus()
    page.keyboard.press("ArrowRight")
    for _ in range(500):  # a browser scrolls when it has time to
        if box.evaluate("(box) => box.scrollLeft > 0"):
            break
        page.wait_for_timeout(20)
    else:
        pytest.fail("the arrow key does not scroll the table")
    assert first.bounding_box()["x"] == left  # the method stays in sight


# Text against the nearest ground behind it, as WCAG 2.1 defines contrast (1.4.3).
FAINT = """() => {
    const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (e) => {
        const colour = getComputedStyle(e).backgroundColor;
        return colour === "rgba(0, 0, 0, 0)" ? ground(e.parentElement) : colour;
    };
    const faint = new Set();
    for (const e of document.querySelectorAll("body *")) {
        if (![...e.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
        const style = getComputedStyle(e);
        const ink = e instanceof SVGElement ? style.fill : style.color;
        const [dim, bright] = [light(ink), light(ground(e))].sort((a, b) => a - b);
        if ((bright + 0.05) / (dim + 0.05) < 4.5) faint.add(`${e.tagName}.${e.className} ${ink} on ${ground(e)}`);
    }
    return [...faint];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read(folder, visit, scheme):
    for file in folder.iterdir():
        page = visit(file, scheme=scheme)
        unfold(page)
        assert page.evaluate(FAINT) == []


def test_verdicts_differ_in_word_shape_and_colour(folder, visit):
    page = visit(folder / "index.html")
    looks = page.evaluate("""() => [...document.querySelectorAll(".legend .verdict")].map((each) => {
        const shape = getComputedStyle(each, "::before");
        const form = [shape.clipPath, shape.backgroundImage, shape.borderTopWidth].join(" ");
        return [each.textContent, form, getComputedStyle(each).color];
    })""")
    assert [look[0] for look in looks] == ["agrees", "same side", "off", "missing"]
    for aspect in (1, 2):
        assert len({look[aspect] for look in looks}) == 4


# What a screen reader would have no name for, or a keyboard could not reach.
UNNAMED = """() => {
    const named = (e) => e.ariaLabel || document.getElementById(e.getAttribute("aria-labelledby"))?.textContent;
    const all = (selector) => [...document.querySelectorAll(selector)];
    return [
        ...all("th:not([scope]), img:not([alt]), img[alt=''], .wide:not([tabindex='0'])"),
        ...all("main table").filter((table) => !table.caption && !table.closest(".prose")),
        ...all("nav, .wide").filter((e) => !named(e)),
        ...all("a, button, summary").filter((e) => !e.textContent.trim()),
    ].map((e) => e.outerHTML.slice(0, 100));
}"""


def test_a_page_can_be_heard_and_used_without_a_mouse(folder, visit):
    for file in folder.iterdir():
        page = visit(file)
        unfold(page)
        assert page.locator("html").get_attribute("lang") == "en"
        for role in ("banner", "main", "contentinfo"):
            assert page.get_by_role(role).count() == 1
        levels = page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((h) => Number(h.tagName[1]))"
        )
        assert levels.count(1) == 1
        assert all(below <= above + 1 for above, below in pairwise(levels))
        assert page.evaluate(UNNAMED) == []
    page = visit(folder / "paper.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert (
        page.get_by_role("img", name="Bar chart of accuracy").bounding_box()["width"] == 896
    )  # 7 inches, a third larger


def test_every_number_leads_down_to_its_records(folder, visit, exhibit):
    page = visit(folder / "paper.html")
    page = page.locator(".exhibit").first
    page.get_by_text("Runs and records (7)").click()
    for method in ("FedAvg", "FENDA-FL", "Ditto", "Silo"):
        page.locator(".source > summary", has_text=method).click()
    found = page.locator(".records tbody tr").all_inner_texts()
    assert len(found) == 8
    checksums = {row["run"]: row["sha256"] for row in exhibit.records}
    for run, checksum in checksums.items():
        (row,) = [row for row in found if run in row]
        assert checksum in row
        assert "torch 2.15.0" in row
        assert "f" * 64 in row
    assert found[5].split() == ["2022", "missing"]
    page.locator(".source", has_text="FENDA-FL").get_by_text("Spec", exact=True).click()
    shown = page.locator(".source", has_text="FENDA-FL").locator("pre").inner_text()
    assert '"seed": "(differs by run)"' in shown
    assert HOSTILE[0] in shown


def test_what_is_not_whole_says_so(folder, visit):
    overview = visit(folder / "index.html")
    marks = overview.locator(".standing tbody tr")
    assert "incomplete" in marks.nth(0).inner_text()
    assert "short profile" in marks.nth(2).inner_text()
    assert "1 tables and figures not made, because records" in overview.locator("main").inner_text()
    paper = visit(folder / "paper.html").locator("main").inner_text()
    assert "incomplete" in paper
    assert "1 tables and figures not made, because records" in paper


def test_a_table_by_client_has_a_column_for_each(folder, visit):
    page = visit(folder / "paper.html")
    table = page.locator(".matrix")
    heads = ["Method", "Mean rank", "north", "south"]
    assert table.locator("thead th").all_inner_texts() == heads
    line = table.locator("tbody tr", has_text="FENDA-FL").locator("td").all_inner_texts()
    assert [cell.split("\n") for cell in line[1:]] == [
        ["0.910 ± 0.127", "0.800 ± 0.000", "agrees"],
        ["0.900 ± 0.000*", "0.800 ± 0.000", "off"],
    ]
    table.get_by_role("button", name="south").click()
    assert table.locator("tbody th").all_inner_texts() == ["FedAvg", "Silo", "FENDA-FL", "Ditto"]


def test_the_overview_counts_cells_and_conclusions(folder, visit):
    row = visit(folder / "index.html").locator(".standing tbody tr").first
    assert row.locator("td:not(.drawn)").all_inner_texts() == ["3 of 5", "0", "1", "1", "1 of 3", "0 of 1", "−0.50"]
    assert "10 runs trained in 1.0 hours" in visit(folder / "index.html").locator("main").inner_text()


def test_the_reports_of_the_papers_themselves(visit, tmp_path):
    """Nothing made: every paper's audit, findings and what is still to be run."""
    gathered = pages.gather({})
    for file in document.write(document.documents(gathered), tmp_path / "report"):
        heard = []
        page = visit(file, width=360, heard=heard)
        unfold(page)
        assert heard == [file.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_synthetic_table_says_so_on_both_pages(exhibit, visit, tmp_path):
    synthetic = Exhibit(replace(exhibit.table, synthetic=True), exhibit.chosen)
    document.write(document.documents([Page("paper", "A paper", (synthetic,))]), tmp_path)
    assert "synthetic data" in visit(tmp_path / "index.html").locator(".standing").inner_text()
    assert visit(tmp_path / "paper.html").get_by_role("heading", name="SYNTHETIC DATA: Table 1: the heart").is_visible()
