"""One word for a comparison: pages, captions, marks and commands say what the finding that owns it counts.

No program reads prose honestly. So `clear.toml` has every sentence of the pages that says how a comparison came out,
with what it is about and the word that a reader takes from it; here the comparison is computed and the words compared.
An entry is one of `ABOUT_NOTHING`, or a list of these, each with `: ` and the word:

    F8                              a finding's verdict on the published cells; `F8@miniature`: on a toy study's arms
    F8 alone                        its verdict, had nothing else been tried; `F8 by dataset`: with a part for each
    findings                        how many have which verdict
    F8 TC, 12k                      its comparison whose label ends so: `holds`, `fails`, `open`
    F1 beside IR                    all that is judged beside it whose label has this word
    Figure 3 30 %, SC TC QA         in how many lines of 610M and 1B on these tasks it is clearly worse than the best
    compare SOURCE FIRST SECOND QA  the outcome of `compare`; `compare-arms`: with `--replicates`
    question 1 nq 5040              a test of `tests.miniature.questions`
"""

import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from statsmodels.stats.multitest import multipletests

import clm_or_mlm as cm
from analysis.claims.assessment import Assessment, assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.judged import JudgedFinding
from analysis.claims.owners import OwnedPair, owned_pairs
from analysis.claims.statements import difference
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import FAILS, HOLDS, IN_PART, OPEN
from analysis.claims.wording import verdict_in_words
from analysis.comparisons.comparison import compare, source_of_arms
from analysis.comparisons.differences import AHEAD, BEHIND
from analysis.evidence.settings import Settings
from analysis.sources import open_source
from benchmarks.protocol import TASKS
from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from paper_figures.figure import CLEAR, FIGURES, FigureInputs
from paper_figures.figures.task_figures import TaskFigure
from paper_figures.save import DrawnFigure
from tests.docs.notebook import NOTEBOOK
from tests.docs.sentences import OUTCOME, pages, without_decimals
from tests.miniature.questions import answers, values_of

TABLE = tomllib.loads((ROOT / "tests" / "docs" / "clear.toml").read_text("utf-8"))
PAGES = pages()
ABOUT_NOTHING = {
    "definition": "explains a word, a rule, a column or an option",
    "asks": "is a question",
    "claim": "gives the words of a finding, which its verdict is about",
    "script": "gives counts that `python -m tests.analysis.how_sure` prints",
    "other": "is about something else, such as another work, a program or a model of one's own",
}
SAYS_NO = re.compile(r"\b(not|none|no|neither|open)\b", re.IGNORECASE)
"""One of these is in a sentence whose comparisons are all open."""
FAMILY = {
    "compare": "compare",
    "compare-arms": "compare",
    "question": "p's are Holm's over a question's tests",
}
"""What a page says where it takes an outcome from elsewhere than a finding: to which family it belongs."""
PACKAGED = ("published", "miniature", "curves")
EXAMPLES = {
    "claims --interval population": "docs/extend.md adds the interval",
    "claims F18 --explain": "docs/extend.md adds the finding",
    "compare --replicates A --replicates B": "A and B stand for models",
}
"""Commands that pages cite and that nobody can run as they are."""


@cache
def inputs(source: str) -> FigureInputs:
    return FigureInputs(source=open_source(source))


@cache
def assessed(source: str = "published") -> Assessment:
    """What is judged: of a toy study its models that were pretrained several times."""
    opened = open_source(source)
    if opened.runs is not None:
        opened = source_of_arms(opened, "seed")
    return assess(opened, Settings())


@cache
def answers_of_curves() -> pd.DataFrame:
    found = answers(values_of(open_source("curves")))
    return found.set_index(["question", "score", "steps"])


def owners(
    models: set[str], source: str = "published"
) -> dict[tuple[str, frozenset[str]], OwnedPair]:
    return owned_pairs(models, assessed(source).result_of)


# Pages


def entries() -> Iterator[tuple[str, str, list[str]]]:
    """Every page, sentence and what it is about."""
    for page, sentences in TABLE.items():
        for one in sentences:
            about = one["about"]
            yield page, one["sentence"], [about] if isinstance(about, str) else about


def items() -> Iterator[tuple[str, str, str]]:
    """Every page, sentence and thing that it says."""
    for page, sentence, about in entries():
        for item in about:
            yield page, sentence, item


def test_each_sentence_on_an_outcome_has_an_entry() -> None:
    known = {(page, sentence) for page, sentence, _ in entries()}
    missing = [
        f"say in tests/docs/clear.toml what this is about, as `{__name__}` explains:\n"
        f"[[\"{page}\"]]\nsentence = '''{sentence}'''\nabout = \"\""
        for page, sentences in PAGES.items()
        for sentence in map(without_decimals, sentences)
        if (page, sentence) not in known
    ]
    assert missing == []


def test_each_entry_is_a_sentence_of_its_page() -> None:
    gone = [
        f"{page} has no such sentence; take it out of tests/docs/clear.toml: {sentence}"
        for page, sentence, _ in entries()
        if sentence not in map(without_decimals, PAGES[page])
    ]
    assert gone == []


def test_sentences_say_what_was_found() -> None:
    wrong = []
    for page, sentence, item in items():
        if item in ABOUT_NOTHING:
            continue
        what, _, word = item.rpartition(": ")
        found = outcome(what)
        if word != found:
            wrong.append(f"{page}: {what} is {found}, not {word}: {sentence}")
    assert wrong == []


def test_counts_of_sentences_are_those_that_were_found() -> None:
    wrong = []
    for page, sentence, about in entries():
        said = re.findall(r"\b\d+ of \d+\b", sentence)
        words = " ".join(about)
        if not ABOUT_NOTHING.keys() & set(about):
            wrong += [f"{page}: {one}: {words}" for one in said if one not in words]
    assert wrong == []


def test_sentences_about_open_comparisons_say_so() -> None:
    unsaid = []
    for page, sentence, about in entries():
        words = {item.rpartition(": ")[2] for item in about}
        if words == {OPEN.name} and not SAYS_NO.search(sentence):
            unsaid.append(f"{page}: {sentence}")
    assert unsaid == []


def test_pages_name_the_family_of_what_no_finding_counts() -> None:
    unnamed = []
    for page, sentence, item in items():
        kind = item.split()[0]
        text = " ".join((ROOT / page).read_text("utf-8").split())
        if kind in FAMILY and FAMILY[kind] not in text:
            unnamed.append(f"{page}: whose {FAMILY[kind]!r} is it? {sentence}")
    assert unnamed == []


def outcome(what: str) -> str:
    """What is computed of a thing that a sentence is about; a finding has to own a comparison that is named by it."""
    kind, *rest = what.split()
    if kind == "Figure":
        return in_figure_3(float(rest[1]), rest[3:])
    if kind == "question":
        number, score, *steps = rest
        test = answers_of_curves().loc[int(number), score, " ".join(steps)]
        if test["p_holm"] > 0.05:
            return OPEN.name
        return "higher" if test["effect"] > 0 else "lower"
    if kind.startswith("compare"):
        return compared(kind, *rest)
    if kind == "findings":
        return verdicts_in_words()
    name, _, source = kind.partition("@")
    judged = assessed(source or "published").judged[name]
    if rest == ["alone"]:
        return judged.alone.verdict
    if rest == ["by", "dataset"]:
        return assessed().judged_by_dataset[name].verdict
    if not rest:
        return judged.verdict
    if rest[0] == "beside":
        beside = [one for one in judged.reported if rest[1] in one.label]
        [word] = {one.outcome for one in beside}
        return f"{word} in {len(beside)} of {len(beside)}"
    return counted(judged, " ".join(rest), source or "published")


def verdicts_in_words() -> str:
    outcomes = Counter(assessed().judged[name].outcome for name in FINDINGS)
    return (
        f"{outcomes[HOLDS.name]} hold, {outcomes[FAILS.name]} fail, {outcomes[IN_PART.name]} hold in part, "
        f"{outcomes[OPEN.name]} are open"
    )


def counted(judged: JudgedFinding, place: str, source: str) -> str:
    """What a finding counts a comparison as, which no other finding counts."""
    [result] = [one for one in judged.comparisons if one.label.endswith(place)]
    [first], [second] = result.comparison.sides
    owned = owners({first, second}, source)
    owner = owned[result.task, frozenset((first, second))]
    assert owner.finding == judged.id, f"{result.label} is {owner.finding}'s"
    return judged.marks[result.label]


def compared(kind: str, source: str, first: str, second: str, place: str) -> str:
    """What `compare` says of the first model, on a task's average or over all tasks."""
    opened = open_source(source)
    pair = (first, second)
    arms = kind == "compare-arms"
    found = compare(
        opened,
        () if arms else pair,
        opened.with_interval(Settings() if arms else Settings(interval="t")),
        replicates=pair if arms else (),
    )
    [one] = [
        one
        for one in found.differences
        if one.place.task == place and not one.place.is_dataset
    ]
    return one.outcome


def in_figure_3(ratio: float, tasks: list[str]) -> str:
    lists = best_ratios(caption("3", "published"))
    clear = [
        ratio not in lists[task, size] for task in tasks for size in ("610M", "1B")
    ]
    return f"worse in {sum(clear)} of {len(clear)}"


@pytest.mark.parametrize(
    ("question", "finding", "words"),
    [
        ("1 nq 840", "F8 IR, 42k", ("higher", "holds")),
        ("1 sst2 840", "F8 SC, 42k", ("higher", "holds")),
        ("2 sst2 840", "F1 SC, 610m", ("lower", "fails")),
        ("3 sst2 1280", "F11 SC, after 22k steps of CPT", ("higher", "holds")),
    ],
)
def test_questions_of_curves_and_findings_have_one_word(
    question: str, finding: str, words: tuple[str, str]
) -> None:
    name, _, place = finding.partition(" ")
    found = outcome(f"question {question}"), outcome(f"{name}@curves {place}")
    assert found == words


def test_no_page_speaks_of_twelve_gains() -> None:
    effects = [one.effect for one in assessed().judged["F8"].comparisons]
    assert len(effects) == 12 and min(effects) < 0
    said = re.compile(r"\b(12|twelve)(\s+\w+)?\s+gains", re.IGNORECASE)
    texts = {page: (ROOT / page).read_text("utf-8") for page in PAGES}
    assert [page for page, text in texts.items() if said.search(text)] == []


def test_no_clear_gain_stands_beside_its_interval() -> None:
    """Absence of evidence: where a page says that nothing is clear in the end, it says how large the gain may be."""
    row = answers_of_curves().loc[1, "nq", "5040"]
    words = [f"{row[name]:+.2f}" for name in ("effect", "low", "high")]
    assert words == ["+4.50", "-0.22", "+9.22"]
    short = r"\+4\.50? \[-0\.22?, \+?9\.22?\]"
    says = re.compile(r"(none|no gain)[^.|]{0,60}\bclear\b", re.IGNORECASE)
    seen = []
    for page in PAGES:
        # Within a section
        for section in re.split(r"^#", (ROOT / page).read_text("utf-8"), flags=re.M):
            if "5,040" in section and says.search(section):
                seen.append(page)
                assert re.search(short, section), f"{page}: {' '.join(words)}"
    assert seen == ["docs/miniature.md"]


# Commands


def commands() -> list[str]:
    """The commands of the pages that judge or compare, each once."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
        for one in re.findall(r"clm-or-mlm ((?:claims|compare)\b[^`\n|#]*)", text):
            words = re.split(r"\s{3,}", one.strip())[0]
            found[" ".join(words.split())] = None
    return list(found)


def needs_files(command: str) -> bool:
    """Whether it is about scores that a reader brings."""
    words = shlex.split(command)
    sources = [words[at + 1] for at, word in enumerate(words) if word == "--source"]
    return any(name not in PACKAGED and not (ROOT / name).is_file() for name in sources)


RUN = [one for one in commands() if one not in EXAMPLES and not needs_files(one)]


def test_pages_cite_commands_that_can_be_run() -> None:
    assert EXAMPLES.keys() <= set(commands()) and len(RUN) >= 8


@pytest.mark.parametrize("command", RUN)
def test_commands_of_the_pages_say_what_findings_count(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)
    assert main(words) == 0
    said = capsys.readouterr().out
    if words[0] == "compare":
        assert wrong_comparisons(said) == []
    else:
        assert wrong_verdicts(said, words[1:]) == []


def wrong_verdicts(said: str, words: list[str]) -> list[str]:
    """The findings of which `claims` says something else than what is judged."""
    named = [word for word in words if word in FINDINGS]
    wrong = []
    for name in named or [ANSWER, *FINDINGS]:
        judged = assessed().judged[name]
        verdict = verdict_in_words(judged)
        section = re.search(rf"^### {name}\n.*?^\*\*(.*?)\*\*", said, re.M | re.S)
        row = rf"^{name} +{re.escape(judged.finding.short)} +{judged.verdict}  "
        if section:
            says = section[1].lower() == verdict.lower()
        elif named:
            says = judged.verdict in said.lower()
        else:
            says = re.search(row, said, re.M) is not None
        if not says:
            wrong.append(f"{name}: {judged.verdict}")
    return wrong


def wrong_comparisons(said: str) -> list[str]:
    """The tasks on which `compare` and the owner of the comparison differ, and the output does not name the owner."""
    pair = re.search(r"^A: (\S+)\. B: (\S+)\. ", said, re.M)
    if pair is None or pair[1] == "mine":
        family = "Holm's adjustment over the datasets|Holm over all pairs of models"
        return [] if re.search(family, said) else ["whose word is it?"]
    wrong = []
    for (task, _), owner in owners({pair[1], pair[2]}).items():
        [row] = re.findall(rf"^{task} average .*", said, re.M)
        words = {"": "open", pair[1]: "A ahead", pair[2]: "B ahead"}[owner.ahead]
        counts = rf"^{owner.finding} counts the same averages among {owner.tested} .*"
        clause = rf"{owner.ahead or 'open'}( ahead)? on [^;.]*\b{task}\b"
        sentence = re.search(counts, said, re.M)
        if sentence is None or not re.search(clause, sentence[0]):
            wrong.append(f"{task}: {row} but {owner.finding}: {words}")
    return wrong


def test_the_notebook_names_the_owner_of_what_it_compares() -> None:
    text = NOTEBOOK.read_text("utf-8")
    pairs = re.findall(r"cm\.compare\(\\\"([^\"]+)\\\", \\\"([^\"]+)\\\"\)", text)
    assert pairs
    prose = " ".join(PAGES[str(NOTEBOOK.relative_to(ROOT))])
    for pair in pairs:
        found = cm.compare(*pair).set_index(["task", "dataset"])["outcome"]
        for (task, _), owner in owners(set(pair)).items():
            word = {"": "open", pair[0]: AHEAD, pair[1]: BEHIND}[owner.ahead]
            if found[task, "average"] != word:
                named = rf"{owner.finding}\b.*\b{task}\b.*\b{word}"
                assert re.search(named, prose), (pair, task, owner)


# Captions and marks


@cache
def collected(name: str, source: str) -> DrawnFigure:
    """A figure, not yet drawn."""
    return DrawnFigure.of(FIGURES[name].load(), inputs(source))


def caption(name: str, source: str) -> str:
    return collected(name, source).caption.replace("\u00a0", " ")


def best_ratios(words: str) -> dict[tuple[str, str], list[float]]:
    """By task and size the ratios that Figure 3's caption lists: the best and those not clearly worse."""
    names, _, rest = words.partition("\n")[0].partition("(")[2].partition("): ")
    sizes = names.split(", ")
    found = {}
    for part in rest.rstrip(".").split("; "):
        task, _, lists = part.partition(" ")
        of_sizes = lists.split(", ")
        if of_sizes == ["any"]:
            of_sizes *= len(sizes)
        for size, ratios in zip(sizes, of_sizes, strict=True):
            every = [20.0, 30.0, 40.0, 50.0]
            found[task, size] = (
                every if ratios == "any" else [float(one) for one in ratios.split("/")]
            )
    return found


LACKING = {"published": "5 7 11 12", "miniature": "", "curves": "4 10"}
"""Figures of the paper for which a source lacks scores, runs or logs."""


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (name, source)
        for source in PACKAGED
        for name in FIGURES
        if name.isdecimal() and name not in LACKING[source].split()
    ],
)
def test_captions_and_marks_follow_the_owner(name: str, source: str) -> None:
    figure = collected(name, source)
    said = caption(name, source).partition("\n")[0]
    if CLEAR not in figure.data:
        is_best = said.startswith("Best ratio in %, or not clearly worse (")
        assert is_best == (name == "3")
        assert is_best or not OUTCOME.search(said), "which comparison is it?"
        return
    spec = FIGURES[name].load()
    assert isinstance(spec, TaskFigure)
    marks = expected_marks(spec, figure.data, source)
    assert marks and figure.data[CLEAR].dropna().to_dict() == marks
    rows = figure.data.loc[list(marks)]
    assert "(filled; Holm)" in said
    if said.startswith("Clearly above MLM alone"):
        counts = {
            (f"{x:g} % CLM", int(part[CLEAR].sum()), len(part))
            for x, part in rows.groupby("x")
        }
        found = re.findall(r"([\d.]+ % CLM) in (\d+) of (\d+)", said)
    else:
        counts = {
            (task, int(part[CLEAR].sum()), len(part))
            for task, part in rows.groupby("panel")
        }
        found = [
            (task, count, of)
            for count, of, task in re.findall(
                rf"(\d+) of (\d+)(?: \w+)? on ({'|'.join(TASKS)})", said
            )
        ]
    assert {(what, int(count), int(of)) for what, count, of in found} == counts


def expected_marks(
    figure: TaskFigure, data: pd.DataFrame, source: str
) -> dict[object, bool]:
    """By row whether the owner counts the point as ahead; what none owns is held to Holm's over these points alone."""
    assert figure.compared_with is not None
    at = {(row.panel, row.series, row.x): row.model for row in data.itertuples()}
    pairs = {}
    for row in data.itertuples():
        rival = at.get(
            (row.panel, *(figure.compared_with(row.series, row.x) or ("", 0)))
        )
        if rival:
            pairs[row.Index] = (row.panel, row.model, rival)
    result_of = inputs(source).evidence.result
    models = {model for _, *pair in pairs.values() for model in pair}
    owned = owned_pairs(models, result_of)
    marks, ps = {}, {}
    for row, (task, first, second) in pairs.items():
        owner = owned.get((task, frozenset((first, second))))
        if owner is None:
            ps[row] = result_of(difference("", first, second, task)).p_for
        else:
            marks[row] = owner.ahead == first
    if ps:
        reject = multipletests(list(ps.values()), 0.05, method="holm")[0]
        marks |= dict(zip(ps, map(bool, reject), strict=True))
    return {row: marks[row] for row in sorted(marks)}


@pytest.mark.parametrize("name", ["2", "4", "6", "9", "10"])
def test_as_many_marks_are_filled_as_are_clear(name: str) -> None:
    figure = collected(name, "published")
    clear = figure.data[figure.data[CLEAR].eq(True)]
    names = set(clear["series"])
    marks = [
        line
        for ax in figure.drawing.axes
        for line in ax.lines
        if str(line.get_label())[1:] in names and len(line.get_xydata()) == 1
    ]
    filled = Counter(
        str(line.get_label())[1:]
        for line in marks
        if to_hex(line.get_markerfacecolor()) != to_hex("white")
    )
    assert filled == clear["series"].value_counts().to_dict() != {}


def test_figure_4_fills_at_least_what_f6_counts() -> None:
    said = re.findall(r"(\d+) of \d+", caption("4", "published").partition("\n")[0])
    assert sum(map(int, said)) >= assessed().judged["F6"].holds_in == 15


def test_figure_3_lists_no_ratio_that_f5a_counts_as_beaten() -> None:
    """Its words are corrected for all pairs of the figure, which it says; F5a's for a ratio's 36."""
    said = caption("3", "published")
    lists = best_ratios(said)
    assert "Clearly worse: Holm over all pairs." in said
    for part in assessed().judged["F5a"].counted:
        contrast = part.branch.decides_for.comparison
        [[best], [beaten]] = contrast.sides
        [task] = contrast.tasks
        size = best.partition("-")[0].upper()
        ratio = float(beaten.partition("mlm")[2][:2])
        assert part.counted == HOLDS.name and ratio not in lists[task, size]


@pytest.mark.parametrize("source", PACKAGED)
def test_the_answers_picture_and_the_forest_count_as_the_findings(source: str) -> None:
    judged = inputs(source).assessment.judged
    answer, forest = collected("answer", source), collected("claims", source)
    main = judged[ANSWER]
    assert (
        f"clearly better than MLM alone in {main.holds_in or 'none'} of {main.known} comparisons"
        in answer.title
    )
    assert f"clearly worse in {main.fails_in or 'none'}" in answer.title
    words = answer.data["says_holm"].value_counts()
    assert words.get(HOLDS.name, 0) == main.holds_in
    assert words.get(FAILS.name, 0) == main.fails_in
    hold = sum(judged[name].outcome == HOLDS.name for name in FINDINGS)
    assert f"{hold} of {len(FINDINGS)} findings hold as stated" in forest.title


@pytest.mark.parametrize("source", ["miniature", "curves"])
def test_figures_of_toy_studies_say_that_they_are_about_one_pretraining(
    source: str,
) -> None:
    """Their marks are about fine-tuning seeds, pages and `compare --replicates` about pretrainings."""
    alt = collected("6", source).alt
    assert "pretrained several times, the first is drawn" in alt
    assert re.search(r"Bars: 95 % intervals \(pooled, 5 seeds\)", caption("6", source))
