"""Frameworks other than numpy and torch, each by way of numpy."""

FRAMEWORKS = {
    "pt": "torch", "torch": "torch", "pytorch": "torch",
    "np": "numpy", "numpy": "numpy",
    "tf": "tensorflow", "tensorflow": "tensorflow",
    "jax": "flax", "flax": "flax",
    "mlx": "mlx",
    "paddle": "paddle", "paddlepaddle": "paddle",
}  # fmt: skip


def from_numpy(framework, array, device=None):
    """A numpy array as an array of the framework."""
    if framework == "numpy":
        return array
    if framework == "flax":
        import jax.numpy

        return jax.numpy.asarray(array)
    if framework == "tensorflow":
        import tensorflow

        return tensorflow.convert_to_tensor(array)
    if framework == "mlx":
        import mlx.core

        if array.dtype.name == "bfloat16":  # mlx cannot take it from numpy
            return mlx.core.array(array.view("uint16")).view(mlx.core.bfloat16)
        return mlx.core.array(array)
    import paddle

    if array.dtype.name == "bfloat16":  # paddle represents it as uint16 in numpy
        tensor = paddle.to_tensor(array.view("uint16"), place="cpu").view(paddle.bfloat16)
    else:
        tensor = paddle.to_tensor(array, place="cpu")
    if device is None:
        return tensor
    return tensor.to(f"gpu:{device}" if isinstance(device, int) else str(device).replace("cuda", "gpu"))


def to_numpy(framework, value):
    """An array of the framework as a numpy array."""
    import numpy

    if framework in ("tensorflow", "paddle"):
        array = value.numpy()
        if framework == "paddle" and "bfloat16" in str(value.dtype):
            import ml_dtypes

            array = array.view(ml_dtypes.bfloat16)
        return numpy.asarray(array)
    if framework == "mlx" and "bfloat16" in str(value.dtype):
        import ml_dtypes
        import mlx.core

        return numpy.array(value.view(mlx.core.uint16)).view(ml_dtypes.bfloat16)
    return numpy.asarray(value)
