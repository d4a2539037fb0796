"""Hooks into Keras 3, on top of its backends' hooks."""

from typing import Any, Dict


def settings(keras: Any) -> Dict[str, Any]:
    """Return Keras's own settings; Keras 2 has none of these."""
    config: Any = getattr(keras, "config", None)
    if not hasattr(config, "image_data_format"):
        return {}
    found = {"memory_format": config.image_data_format().replace("_", " "), "default_dtype": config.floatx()}
    if hasattr(config, "dtype_policy"):
        found["precision_policy"] = config.dtype_policy().name
    return found
