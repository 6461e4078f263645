"""Other programs read exports: ONNX, and llama.cpp, if LLAMA_CPP_CONVERTER names its convert_hf_to_gguf.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers as hf

from pretraining.data.tokenizer import train_tokenizer
from pretraining.model.encoder_folder import write_folder
from pretraining.model.model_folder import eurobert_files
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.start_folder import export_llama, export_trained
from pretraining.model.start_weights import load_start
from pretraining.starts import start_of
from tests.pretraining.documents import make_documents
from tests.pretraining.families import ENCODERS, save_start
from tests.pretraining.sizes import config_for

CONVERTER = os.environ.get("LLAMA_CPP_CONVERTER", "")
# It knows tokenizers by the hash of a text's tokens, and so none that a test trained.
RUN = """
import runpy, sys
from pathlib import Path
script = sys.argv[1]
sys.path[:0] = [str(Path(script).parent), str(Path(script).parent / "gguf-py")]
from conversion import base
base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "llama-bpe"
sys.argv[:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
import gguf
fields = gguf.GGUFReader(sys.argv[sys.argv.index("--outfile") + 1]).fields
print("causal:", [bool(field.contents()) for name, field in fields.items() if name.endswith("attention.causal")])
"""


def exported(kind: str, folder: Path) -> Path:
    """Return an export of a family, or the Llama twin of an own model."""
    if kind != "twin":
        start = start_of(str(save_start(folder / "start", kind)))
        return export_trained(
            start, load_start(start, 0).state_dict(), {"model": "tiny"}, folder / "out"
        )
    config = config_for(
        "tiny",
        vocab_size=300,
        bos_token_id=297,
        eos_token_id=298,
        pad_token_id=298,
        mask_token_id=299,
    )
    model = EuroBertForMaskedLM(config)
    initialise(model, 3)
    train_tokenizer(make_documents(40), 300).save(folder / "tokenizer")
    own = write_folder(
        folder / "own",
        eurobert_files(model.state_dict(), config, folder / "tokenizer"),
        {"model": "own"},
    )
    return export_llama(own, folder / "out")


@pytest.mark.slow
@pytest.mark.skipif(
    not CONVERTER, reason="LLAMA_CPP_CONVERTER names no convert_hf_to_gguf.py"
)
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma3", "bert", "twin"])
def test_llama_cpp_converts_an_export(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    out = exported(kind, tmp_path)
    command = [
        sys.executable,
        "-c",
        RUN,
        CONVERTER,
        str(out),
        "--outtype",
        "f32",
        "--outfile",
        str(tmp_path / "gguf"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # Gemma 3's class has it always off, and needs no field.
    assert (
        done.stdout.splitlines()[-1] == f"causal: {[] if kind == 'gemma3' else [False]}"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of these libraries
@pytest.mark.parametrize("kind", ["llama", "gemma3", "gpt2", "bert"])
def test_onnxruntime_gives_the_states_of_an_export(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    no_cache = {} if kind in ENCODERS else {"use_cache": False}
    model = hf.AutoModel.from_pretrained(
        exported(kind, tmp_path), attn_implementation="eager", **no_cache
    )
    model.eval()
    # Two texts: a size of 1 would be taken as fixed.
    ids = torch.arange(9).repeat(2, 1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    monkeypatch.chdir(tmp_path)
    torch.onnx.export(
        model,
        kwargs=inputs,
        f="encoder.onnx",
        dynamo=True,
        dynamic_shapes=dict.fromkeys(inputs, sizes),
    )
    session = onnxruntime.InferenceSession("encoder.onnx")
    ids = torch.randint(3, 290, (3, 23), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[0, 11:] = 0
    (states, *_) = session.run(
        None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    )
    with torch.no_grad():
        wanted = model(input_ids=ids, attention_mask=mask).last_hidden_state
    kept = mask.bool()
    torch.testing.assert_close(
        torch.from_numpy(states)[kept], wanted[kept], rtol=1e-5, atol=1e-5
    )
