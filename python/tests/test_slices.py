"""Slices are cut while they are read, on several threads, and converted; a plan says which rank gets
which."""

import struct

import numpy
import pytest

import tenmap
from conftest import needs, same

INDEXES = [
    numpy.s_[1:4],
    numpy.s_[:, 2:4],
    numpy.s_[..., 4:],
    numpy.s_[1:3, 1:4, 4:8],
    numpy.s_[2],
    numpy.s_[:, -1],
    numpy.s_[...],
    numpy.s_[3:3],
    numpy.s_[::2],
    numpy.s_[::-1, 1::3],
    numpy.s_[:, :, ::-2],
    numpy.s_[1, 2, 3],
]


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_load_of_a_slice_is_numpys(model, arrays, index):
    loaded = model.load({name: index for name in arrays})
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert same(loaded[name], array[index]), name
        assert loaded[name].flags.c_contiguous and loaded[name].flags.writeable


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_take_of_a_slice_is_numpys(model, arrays, index):
    if isinstance(index, int) or index == (1, 2, 3):
        pytest.skip("integers alone are a shape")
    for wanted in (None, "float32"):
        kinds = [name for name in arrays if wanted is None or name[0] == "F" or name == "BF16"]
        taken = model.take({name: index for name in kinds}, wanted)
        assert list(taken) == kinds
        for name in kinds:
            expected = model[name].numpy(wanted)[index]
            assert same(taken[name], expected), name
            assert expected.size == 0 or not taken[name].flags.writeable


def test_a_contiguous_slice_is_taken_in_place(model):
    assert model.take({"F32": numpy.s_[2:4]})["F32"].base is not None
    address = model["F32"].numpy()[2:4].ctypes.data
    assert model.take({"F32": numpy.s_[2:4]})["F32"].ctypes.data == address
    assert model.take({"F32": numpy.s_[:, 2:4]})["F32"].ctypes.data != address


def test_taken_slices_outlive_the_model(path, arrays):
    model = tenmap.open(path)
    taken = model.take({"F32": numpy.s_[2:4], "BF16": numpy.s_[:, 1:3]}, {"BF16": "float64"})
    model.close()
    del model
    assert same(taken["F32"], arrays["F32"][2:4])
    assert same(taken["BF16"], arrays["BF16"][:, 1:3].astype("float64"))


def test_slices_are_loaded_into_given_arrays_and_converted(path, arrays):
    for backend in ("map", "read"):
        with tenmap.open(path, backend=backend) as model:
            out = {"BF16": numpy.empty((6, 2, 8), "float32"), "F64": numpy.empty((3, 5, 8))}
            assert model.load({"BF16": numpy.s_[:, 1:3], "F64": numpy.s_[::2]}, {"BF16": "F32"}, out=out) is out
            assert same(out["BF16"], arrays["BF16"][:, 1:3].astype("float32"))
            assert same(out["F64"], arrays["F64"][::2])
            with pytest.raises(ValueError, match="shape"):
                model.load({"F64": numpy.s_[:2]}, out={"F64": numpy.empty((6, 5, 8))})
            with pytest.raises(IndexError, match="out of bounds"):
                model.load({"F64": 6})
            with pytest.raises(TypeError, match="indexed by"):
                model.load({"F64": [1, 2]})
            with pytest.raises(KeyError):
                model.load({"absent": numpy.s_[:2]})


def test_none_is_the_whole_tensor_and_empty_slices_are_empty(model, arrays):
    loaded = model.load({"F32": None, "I8": numpy.s_[:, 5:9]})
    assert same(loaded["F32"], arrays["F32"]) and loaded["I8"].shape == (6, 0, 8)


def test_progress_counts_only_what_the_slice_needs(tmp_path):
    tenmap.save_file({"w": numpy.zeros((4096, 4096), "float32")}, tmp_path / "w.safetensors")
    seen = []
    with tenmap.open(tmp_path / "w.safetensors") as model:
        loaded = model.load({"w": numpy.s_[:, 1024:2048]}, progress=lambda done, total: seen.append((done, total)))
    assert loaded["w"].shape == (4096, 1024) and seen[-1] == (1 << 24, 1 << 24)


def test_dtypes_are_chosen_by_name_and_by_pattern(model):
    loaded = model.load(["F32", "F16", "BF16", "I8"], {"F16": "F64", "*16": "float32", "*": None})
    assert [str(array.dtype) for array in loaded.values()] == ["float32", "float64", "float32", "int8"]
    taken = model.take(["F32", "BF16"], {"B*": "float16"})
    assert [str(array.dtype) for array in taken.values()] == ["float32", "float16"]


@needs("torch")
def test_slices_for_torch_and_a_device(model, arrays):
    import torch

    loaded = model.load({"BF16": numpy.s_[:, 1:3], "F32": numpy.s_[..., ::2]}, device="cpu")
    assert loaded["BF16"].dtype == torch.bfloat16 and loaded["BF16"].shape == (6, 2, 8)
    assert same(loaded["F32"].numpy(), arrays["F32"][..., ::2]) and loaded["F32"].is_contiguous()
    out = {"F32": torch.empty(2, 5, 8)}
    model.load({"F32": numpy.s_[1:3]}, out=out)
    assert same(out["F32"].numpy(), arrays["F32"][1:3])
    assert model.load(["F32"], device="meta")["F32"].device.type == "meta"
    with pytest.raises(ValueError, match="device"):
        model.load(["F32"], framework="numpy", device="cpu")
    with pytest.raises(ValueError, match="device"):
        model.load(["F32"], out={}, device="cpu")


@pytest.fixture
def layers(tmp_path):
    shapes = {
        "model.embed_tokens.weight": (10, 4),
        "model.layers.0.self_attn.q_proj.weight": (8, 4),
        "model.layers.0.self_attn.q_proj.bias": (8,),
        "model.layers.0.self_attn.o_proj.weight": (4, 7),
        "model.layers.0.self_attn.o_proj.bias": (4,),
        "model.norm.weight": (4,),
    }
    arrays = {name: numpy.random.default_rng(1).random(shape, "float32") for name, shape in shapes.items()}
    tenmap.save_file(arrays, tmp_path / "model.safetensors")
    with tenmap.open(tmp_path / "model.safetensors") as model:
        yield model, arrays


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_the_ranks_of_a_plan_cover_each_axis_once(layers, world):
    model, arrays = layers
    plan = {"*.q_proj.*": 0, "*.o_proj.weight": -1, "*.o_proj.bias": None, "*embed*": 0}
    ranks = [model.load(tenmap.shard_plan(model, plan, rank, world)) for rank in range(world)]
    for name, axis in zip(arrays, (0, 0, 0, 1, None, None)):
        if axis is None:
            assert all(same(rank[name], arrays[name]) for rank in ranks)
        else:
            assert same(numpy.concatenate([rank[name] for rank in ranks], axis), arrays[name])
            size = -(-arrays[name].shape[axis] // world)  # torch.chunk's pieces
            assert [rank[name].shape[axis] for rank in ranks] == [
                max(0, min(size, arrays[name].shape[axis] - i * size)) for i in range(world)
            ]


def test_transformers_plans_name_modules_and_styles(layers):
    model, arrays = layers
    plan = {"layers.*.self_attn.q_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise", "embed_tokens": "embedding_rowwise"}
    assert tenmap.shard_plan(model, plan, 1, 2) == {
        "model.embed_tokens.weight": (slice(5, 10),),
        "model.layers.0.self_attn.q_proj.weight": (slice(4, 8),),
        "model.layers.0.self_attn.q_proj.bias": (slice(4, 8),),
        "model.layers.0.self_attn.o_proj.weight": (slice(None), slice(4, 7)),
        "model.layers.0.self_attn.o_proj.bias": None,
        "model.norm.weight": None,
    }
    assert tenmap.shard_plan(model, plan | {"lm_head": "colwise_rep"}, 0, 1)["model.norm.weight"] is None
    with pytest.raises(ValueError, match="packed_colwise"):
        tenmap.shard_plan(model, {"norm": "packed_colwise"}, 0, 2)


def test_wrong_plans_are_refused(layers):
    model, _ = layers
    with pytest.raises(KeyError, match="absent"):
        tenmap.shard_plan(model, {"absent.*": 0}, 0, 2)
    with pytest.raises(ValueError, match="no axis 2"):
        tenmap.shard_plan(model, {"*": 2}, 0, 2)
    for rank, world in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="no rank"):
            tenmap.shard_plan(model, {}, rank, world)


@pytest.mark.parametrize("backend", ["map", "read"])
def test_blocks_are_cut_as_values(tmp_path, backend):
    values = numpy.arange(4 * 64, dtype="float32").reshape(4, 64)
    codes = values.astype("int8").reshape(-1, 32)  # Q8_0: a scale of 1.0 in front of 32 codes
    blocks = b"".join(b"\x00\x3c" + row.tobytes() for row in codes)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"w" + struct.pack("<IQQIQ", 2, 64, 4, 8, 0)
    (tmp_path / "m.gguf").write_bytes(head + bytes(-len(head) % 32) + blocks)
    expected = codes.astype("float32").reshape(4, 64)
    for dequantize in (False, True):
        with tenmap.open(tmp_path / "m.gguf", dequantize, backend) as model:
            for index in (numpy.s_[1:3], numpy.s_[:, 20:50], numpy.s_[2, ::3]):
                assert same(model.load({"w": index}, "float32")["w"], expected[index])
                assert same(model.take({"w": index}, "float32")["w"], expected[index])
