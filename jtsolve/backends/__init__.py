"""The backends: a module or a package each. Called, as `jtsolve.backends()`, it lists them."""

import sys
from types import ModuleType


class _Backends(ModuleType):
    """This package, callable, since importing a backend binds the package to the name `jtsolve.backends`."""

    def __call__(self) -> dict[str, str]:
        """Returns a sentence on each backend, by its name for `learn` and `solve`.

        >>> import jtsolve as jt
        >>> len(jt.backends()) >= 13
        True
        """
        from jtsolve.backends.registry import REGISTRY

        return {name: REGISTRY.describe(value).summary for name, value in REGISTRY.everything().items()}


sys.modules[__name__].__class__ = _Backends
