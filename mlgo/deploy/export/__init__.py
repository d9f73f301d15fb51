"""Policies in the forms that LLVM can be built with."""

from mlgo.deploy.export.cpp import Cpp
from mlgo.deploy.export.form import Form
from mlgo.deploy.export.tensorflow_forms import AheadOfTime, SavedModel, TFLite
from mlgo.deploy.export.tosa import Tosa

FORMS: dict[str, Form] = {form.name: form for form in (SavedModel(), Cpp(), TFLite(), Tosa())}
"""Forms that each run writes, by name."""

ALL_FORMS = FORMS | {AheadOfTime.name: AheadOfTime()}
"""The same with what ``scripts/export_policy.py --forms`` writes only if it is asked to."""
