"""All forms in which a policy is exported."""

from mlgo.export.cpp import Cpp
from mlgo.export.form import Form
from mlgo.export.saved_model import SavedModel
from mlgo.export.tflite import TFLite

FORMS: dict[str, Form] = {form.name: form for form in (SavedModel(), Cpp(), TFLite())}
"""By name; a further one is a file and its place here."""
