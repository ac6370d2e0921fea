"""Models and tensors in notebooks: tables of folded layers, and histograms."""

from html import escape

from ._model import _bytes_text as bytes_text
from ._names import fold, shown

_MOST_ROWS = 200
_BINS = 48
_MOST_MEASURED = 1 << 24  # elements; of larger tensors the first rows are measured

_TABLE = 'style="border-collapse:collapse;font-size:0.9em;margin:0.3em 0"'
_LEFT = 'style="text-align:left;padding:1px 12px 1px 0"'
_RIGHT = 'style="text-align:right;padding:1px 12px 1px 0"'
_MONO = 'style="text-align:left;padding:1px 12px 1px 0;font-family:monospace,monospace;overflow-wrap:anywhere"'


def _row(kind, *cells):
    return "<tr>" + "".join(f"<{kind} {style}>{text}</{kind}>" for style, text in cells) + "</tr>"


def model_html(model):
    """A model as HTML: a description, and its tensors. Names that differ only in numbers share one
    row."""
    what = escape(shown(model.path)) if model.path is not None else "of derived tensors" if model._source is None else "from memory or a file object"
    if model.closed:
        return f"<div><b>tenmap.Model</b> {what}, closed</div>"
    rows = [(row[0], row[1], row[2], row[5]) for row in model._table()]
    folded = fold(rows)
    dtypes = {}
    for _, dtype, _, size in rows:
        dtypes[dtype] = dtypes.get(dtype, 0) + size
    parts = ", ".join(f"{escape(shown(dtype))} {bytes_text(size)}" for dtype, size in sorted(dtypes.items(), key=lambda d: -d[1]))
    lines = [f"<div><b>tenmap.Model</b> {what}<br>{len(rows):,} tensors, {bytes_text(model.nbytes)}{': ' * bool(parts)}{parts}</div>",
             f"<table {_TABLE}>",
             _row("th", (_LEFT, "tensors"), (_LEFT, "dtype"), (_LEFT, "shape"), (_RIGHT, "count"), (_RIGHT, "size"))]  # fmt: skip
    for name, dtype, shape, count, size in folded[:_MOST_ROWS]:
        lines.append(_row("td", (_MONO, escape(shown(name))), (_LEFT, escape(shown(dtype))), (_LEFT, _shape_text(shape)),
                          (_RIGHT, f"{count:,}"), (_RIGHT, bytes_text(size))))  # fmt: skip
    lines.append("</table>")
    if len(folded) > _MOST_ROWS:
        lines.append(f"<div>and {len(folded) - _MOST_ROWS:,} more rows</div>")
    return "\n".join(lines)


def _shape_text(shape):
    return " &times; ".join(f"{n:,}" for n in shape) if shape else "scalar"


def tensor_html(tensor):
    """A tensor as HTML: name, dtype, shape, size, and a histogram of its values."""
    lines = [f'<div><b>tenmap.Tensor</b> <span style="font-family:monospace,monospace">{escape(shown(tensor.name))}</span><br>'
             f"{escape(shown(tensor.dtype))}, {_shape_text(tensor.shape)}, {bytes_text(tensor.nbytes)}"]  # fmt: skip
    if tensor.scheme != "none":
        lines[0] += f", stored as {escape(shown(tensor.scheme))}"
    lines.append(_values_html(tensor))
    return "\n".join(lines) + "</div>"


def _values_html(tensor):
    from ._errors import Error
    from ._inspect import measure

    part, note = tensor, ""
    if tensor.size > _MOST_MEASURED and tensor.ndim:
        rows = max(1, _MOST_MEASURED * len(tensor) // tensor.size)
        part, note = tensor[:rows], f" (of the first {rows:,} of {len(tensor):,} rows)" * (rows < len(tensor))
    if tensor.size == 0 or part.size > 4 * _MOST_MEASURED:
        return ""
    try:
        stats = measure(part, bins=_BINS)
    except (Error, OSError, TypeError, ValueError):  # dtypes without numbers; a file that is gone
        return ""
    text = f"min {stats.min:.4g}, max {stats.max:.4g}, mean {stats.mean:.4g}, std {stats.std:.4g}{note}"
    odd = [f"{count:,} {word}" for count, word in ((stats.nans, "NaN"), (stats.infinities, "infinite")) if count]
    return f"{_sparkline(stats)}<br>{', '.join([text, *odd])}"


def _sparkline(stats):
    """The histogram as bars; a bar that is not empty has at least one pixel."""
    counts, height, width = stats.histogram, 40, 5
    most = max(counts, default=0)
    if not most or stats.min == stats.max:
        return ""
    bars = []
    for i, count in enumerate(counts):
        if count:
            tall = max(1.0, height * count / most)
            bars.append(f'<rect x="{i * width}" y="{height - tall:.1f}" width="{width - 1}" height="{tall:.1f}">'
                        f"<title>{stats.edges[i]:.4g} to {stats.edges[i + 1]:.4g}: {count:,}</title></rect>")  # fmt: skip
    size = f'width="{len(counts) * width}" height="{height}"'
    return f'<br><svg {size} fill="#4878a8" role="img" aria-label="histogram">{"".join(bars)}</svg>'
