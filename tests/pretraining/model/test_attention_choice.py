import logging
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from common.errors import UserError
from pretraining.model import attention_choice
from pretraining.model.attention import (
    AUTO,
    BACKENDS,
    FLASH,
    SDPA,
    VARLEN,
    AttentionBackend,
    Layout,
    attention,
    packed_layout,
    resolve_backend,
)  # fmt: skip
from pretraining.model.attention_choice import Choice, Heads, choose, fastest
from pretraining.paper_settings import TRAINING
from tests.pretraining.naive_attention import make

CPU = torch.device("cpu")
HEADS = Heads(4, 2, 8)
LENGTH = 24


@pytest.fixture(autouse=True)
def _nothing_measured_yet() -> Iterator[None]:
    fastest.cache_clear()
    yield
    fastest.cache_clear()


class Slowed:
    """sdpa with a delay, which counts its calls and keeps the layouts."""

    def __init__(self, seconds: float, change: Callable[[Tensor], Tensor] = lambda out: out) -> None:
        self.seconds, self.change, self.layouts = seconds, change, list[Layout]()

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
        self.layouts.append(layout)
        time.sleep(self.seconds)
        return self.change(SDPA.attend(q, k, v, layout))


def made(name: str, attend: Callable[..., Tensor], problem: str = "") -> AttentionBackend:
    return AttentionBackend(
        name=name, attend=attend, needs=SDPA.needs, problem=lambda device, dtype, head_dim: problem
    )


def fail(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
    raise RuntimeError("no kernel image is available\nfor this GPU")


def measured(*backends: AttentionBackend, is_causal: bool = False) -> AttentionBackend:
    return fastest(backends, HEADS, CPU, torch.float32, is_causal=is_causal, max_length=LENGTH)


def test_the_fastest_wins_wherever_it_stands() -> None:
    quick, slow = made("quick", Slowed(0)), made("slow", Slowed(0.05))
    assert measured(slow, quick) is quick
    fastest.cache_clear()
    assert measured(quick, slow) is quick


def test_the_batch_is_the_papers() -> None:
    attend = Slowed(0)
    measured(made("a", attend), made("b", Slowed(0)), is_causal=True)
    layout = attend.layouts[0]
    assert len(layout.lengths) == TRAINING.device_batch == 12
    assert layout.lengths[0] == TRAINING.min_length and layout.lengths[-1] == layout.max_length == LENGTH
    assert len(set(layout.lengths)) == 12 and layout.is_causal


def test_one_that_fails_is_skipped_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    good = made("good", Slowed(0.005))
    with caplog.at_level(logging.INFO):
        assert measured(made("broken", fail), good) is good
        assert measured(made("broken", fail), made("too", fail)) is SDPA
    assert "attention backend broken is skipped: no kernel image is available" in caplog.messages
    assert any("good" in line and " ms; taking good" in line for line in caplog.messages)


def test_one_with_wrong_numbers_is_skipped_however_fast(caplog: pytest.LogCaptureFixture) -> None:
    wrong = made("wrong", Slowed(0, lambda out: out * 1.1))
    nothing = made("nothing", Slowed(0, lambda out: out * float("nan")))
    good = made("good", Slowed(0.005))
    assert measured(wrong, nothing, good) is good
    assert "wrong is skipped: its numbers differ from those of sdpa by 10%" in caplog.text
    assert "nothing is skipped: its numbers differ from those of sdpa by inf%" in caplog.text


def test_it_is_measured_once_in_a_process() -> None:
    first, second = Slowed(0), Slowed(0.002)
    pair = made("first", first), made("second", second)
    chosen = measured(*pair)
    calls = len(first.layouts)
    assert measured(*pair) is chosen and len(first.layouts) == calls > 3


def test_backends_are_resolved() -> None:
    assert resolve_backend("auto", CPU, torch.float32, 64) is SDPA
    assert resolve_backend("sdpa", CPU, torch.bfloat16, 64) is SDPA
    assert AUTO.candidates(CPU, torch.bfloat16, 64) == [SDPA]
    with pytest.raises(UserError, match="did you mean 'flash'"):
        resolve_backend("flsh", CPU, torch.float32, 64)


def test_without_measuring_the_first_that_can_run_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(attention_choice, "fastest", lambda *a, **k: pytest.fail("measured"))
    assert resolve_backend("auto", torch.device("cuda", 0), torch.bfloat16, 64) is VARLEN


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A setting that stands for two backends that a CPU runs, `slow` and `quick`, and one that it does not."""
    backends = (FLASH, made("slow", Slowed(0.05)), made("quick", Slowed(0)))
    for item in (*backends[1:], AttentionBackend(name="several", attend=fail, stands_for=backends)):
        monkeypatch.setitem(BACKENDS, item.name, item)
    yield "several"


def chosen(setting: str, recorded: dict[str, object] | None = None) -> Choice:
    return choose(setting, HEADS, CPU, torch.float32, is_causal=True, max_length=LENGTH, recorded=recorded)


def test_training_measures_once_and_takes_the_recorded_one_when_it_resumes(several: str) -> None:
    assert chosen(several) == Choice("quick", measured=True)
    assert chosen(several, {"backend": "slow", "measured": True}) == Choice("slow", measured=True)
    assert chosen(several, {"backend": "slow", "measured": False}) == Choice("slow", measured=False)
    # Recorded on a GPU, resumed where it cannot run.
    assert chosen(several, {"backend": "flash", "measured": True}) == Choice("quick", measured=True)


def test_a_backend_that_is_set_is_taken_whatever_is_recorded(several: str) -> None:
    assert chosen("slow", {"backend": "quick", "measured": True}) == Choice("slow", measured=False)
    with pytest.raises(UserError, match="attention backend flash needs a GPU and bf16 or fp16"):
        chosen("flash")


def test_a_cpu_takes_sdpa_without_measuring() -> None:
    assert chosen("auto") == Choice("sdpa", measured=False)


def test_a_made_up_backend_is_used_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = AttentionBackend(
        name="constant",
        attend=lambda q, k, v, layout: torch.full_like(q, 7.0),
        problem=lambda device, dtype, head_dim: "" if dtype == torch.double else "needs double precision",
    )
    monkeypatch.setitem(BACKENDS, made_up.name, made_up)
    with pytest.raises(
        UserError, match="attention backend constant needs double precision; use auto or sdpa"
    ):
        resolve_backend("constant", CPU, torch.float32, 64)
    backend = resolve_backend("constant", CPU, torch.double, 64)
    q, k, v = make((3, 2), 6, 2)
    layout = packed_layout(torch.tensor([0, 3, 5]), 5, 3, is_causal=False, backend=backend)
    assert (attention(q, k, v, layout) == 7).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("is_causal", [False, True])
def test_on_this_gpu_nothing_that_can_run_is_skipped(
    is_causal: bool, caplog: pytest.LogCaptureFixture
) -> None:
    device = torch.device("cuda", 0)
    there = tuple(AUTO.candidates(device, torch.bfloat16, 96))
    assert fastest(there, Heads(18, 6, 96), device, torch.bfloat16, is_causal=is_causal) in there
    assert "skipped" not in caplog.text
