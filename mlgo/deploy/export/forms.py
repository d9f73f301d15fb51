"""All forms in which a policy is exported; a further one is a file, and its place here."""

from mlgo.deploy.export.aot import AheadOfTime
from mlgo.deploy.export.cpp import Cpp
from mlgo.deploy.export.form import Form
from mlgo.deploy.export.saved_model import SavedModel
from mlgo.deploy.export.tflite import TFLite
from mlgo.deploy.export.tosa import Tosa

_IN_EVERY_RUN: tuple[Form, ...] = (SavedModel(), Cpp(), TFLite(), Tosa())
_ON_REQUEST: tuple[Form, ...] = (AheadOfTime(),)

FORMS = {form.name: form for form in _IN_EVERY_RUN}
"""What each run writes, by name."""

ALL_FORMS = FORMS | {form.name: form for form in _ON_REQUEST}
"""The same with what ``scripts/export_policy.py --forms`` writes only if it is asked to."""
