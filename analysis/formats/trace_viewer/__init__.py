"""Trace viewer files of TensorFlow 2, JAX and XProf (*.trace.json.gz): a view of an XSpace."""

from kernelscope.analysis.formats.format import Format

FORMATS = (Format("trace-viewer", "TensorFlow, JAX: trace viewer JSON", f"{__name__}.trace", 35),)
