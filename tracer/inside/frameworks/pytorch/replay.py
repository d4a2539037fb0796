"""Run one layer of a PyTorch model alone, with its inputs and output gradients from one ordinary step.

Copies are kept of each call's arguments, as they came, and of the gradients of its outputs. Each replay runs the layer's
forward and, if the step did, its backward: the gradients of its parameters and of those inputs that had one.
"""

from typing import Any, Callable, Dict, Iterator, List, Tuple

from kernelscope.tracer.inside.frameworks.workload import CannotReplay


def replayer(torch: Any, module: Any, step: Callable[[], Any], synchronise: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that runs all of a step's calls of `module` alone; `step` runs an ordinary step of the program.

    synchronise: waits for the device. Raises CannotReplay, also if a first replay fails.
    """
    if int(torch.__version__.split(".")[0]) < 2:
        raise CannotReplay("PyTorch 2.0 or newer is needed")
    if next(module.children(), None) is not None:
        raise CannotReplay("it has modules inside")
    try:
        calls = _captured(torch, module, step)
        if not calls:
            raise CannotReplay("it is not called in a step")
        if any(call.mixed for call in calls):
            raise CannotReplay("it runs with automatic mixed precision")

        def replay() -> None:
            for call in calls:
                call.run()
            synchronise()

        replay()
    except (RuntimeError, TypeError) as error:
        raise CannotReplay(str(error).strip().split("\n")[0] or type(error).__name__) from error
    return replay


def _captured(torch: Any, module: Any, step: Callable[[], Any]) -> List["Call"]:
    """Return the calls of the module in one step, in order."""
    calls = []

    def before(module: Any, arguments: Any, keywords: Any) -> None:
        calls.append(Call(torch, module, arguments, keywords))

    def after(_: Any, __: Any, output: Any) -> None:
        calls[-1].watch(output)

    handles = [
        module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        module.register_forward_hook(after),
    ]
    try:
        step()
    finally:
        for handle in handles:
            handle.remove()
    return calls


class Call(object):
    """One call of a module: arguments, keywords, mixed (precision), and the gradients of its outputs as {number: tensor}."""

    def __init__(self, torch: Any, module: Any, arguments: Any, keywords: Any) -> None:
        self._torch, self._module = torch, module
        self.arguments, self.keywords = self._copied(arguments), self._copied(keywords)
        self.mixed = any(getattr(torch, name, bool)() for name in ("is_autocast_enabled", "is_autocast_cpu_enabled"))
        self.gradients: Dict[Any, Any] = {}
        self._differentiates, self._infers = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        wanted = list(self._tensors((self.arguments, self.keywords))) + list(module.parameters())
        self._wanted = [tensor for tensor in wanted if tensor.requires_grad]

    def _copied(self, value: Any) -> Any:
        """Return the value with its tensors copied, in the same layout and with the same requires_grad."""
        if isinstance(value, self._torch.Tensor):
            return value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, dict):
            return {key: self._copied(item) for key, item in value.items()}
        if type(value) in (tuple, list):
            return type(value)(self._copied(item) for item in value)
        return value

    def _tensors(self, value: Any) -> Iterator[Any]:
        """Yield the tensors in a value, in a fixed order."""
        if isinstance(value, self._torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                for tensor in self._tensors(item):
                    yield tensor

    def watch(self, output: Any) -> None:
        """Keep the gradients that backward will bring to this output."""
        for number, tensor in enumerate(self._tensors(output)):
            if tensor.requires_grad:
                tensor.register_hook(self._keeper(number))

    def _keeper(self, number: int) -> Callable[..., Any]:
        def keep(gradient: Any) -> None:
            self.gradients[number] = gradient.detach().clone()

        return keep

    def run(self) -> Tuple[Any, Any]:
        """Repeat the call and its backward; return (output, gradients of the tensors that require one: () without backward)."""
        torch = self._torch
        if not self._differentiates or self._infers:
            with torch.inference_mode(self._infers), torch.no_grad():
                return self._module(*self.arguments, **self.keywords), ()
        output = self._module(*self.arguments, **self.keywords)
        found = [(tensor, self.gradients[i]) for i, tensor in enumerate(self._tensors(output)) if i in self.gradients]
        if not found or not self._wanted:
            return output, ()
        tensors, gradients = zip(*found)
        # as backward does, but without setting the parameters' gradients: there are none to clear before the next replay
        return output, torch.autograd.grad(tensors, self._wanted, gradients, allow_unused=True)
