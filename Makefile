# make            set up everything, run the main job, say what it found
# make test       run the tests
# make help       everything else
PYTHON ?= python3
CORES ?= all
PRESET ?=
POLICY ?=
REASON ?=
FILES ?=
SHIPS ?=
SET ?=
EXTRA ?=
FUZZ ?=
SECONDS ?= 600
PYTHONS ?=
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"
SNAKEMAKE := $(RUN) snakemake --workflow-profile workflow/profiles/default --cores $(CORES) \
	$(if $(PRESET),--configfile config/presets/$(PRESET).yaml)
PYTEST := $(RUN) pytest -n auto --dist loadfile

LOOKS = $(wildcard data/sealed/evaluation/*/objects)

.DEFAULT_GOAL := main
.PHONY: main setup test test-pipeline test-slow fuzz fuzz-driver check docs format tiny truth readme headroom programs scoreboard generalisation sweep composition dist policies release-check sealed sealed-corpus dry-run clean help

main: setup  ## set up everything, run the main job, print what it found; PRESET=merged: on programs as they ship
	@$(if $(PRESET),sed -n 's/^# \(It costs .*\)/\1/p' config/presets/$(PRESET).yaml)
	$(SNAKEMAKE)
	@$(RUN) mlgo report $(if $(PRESET),--preset config/presets/$(PRESET).yaml)

setup: $(VENV)/installed $(EXTRA:%=$(VENV)/installed-%)  ## make .venv with the pinned packages; EXTRA="docs import optuna ray s3 sb3": the site, models of others, adaptive sweeps, clusters, remotes on S3, examples/sb3_*.py

$(VENV)/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# TORCH may name another build, for example a wheel for the CPU alone.
$(VENV)/installed-sb3: $(VENV)/installed requirements-sb3.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-sb3.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@touch $@

$(VENV)/installed-docs $(VENV)/installed-import $(VENV)/installed-optuna $(VENV)/installed-ray $(VENV)/installed-s3 $(VENV)/installed-s3-test: $(VENV)/installed-%: $(VENV)/installed requirements-%.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-$*.lock
	@touch $@

$(VENV)/installed-s3-test: $(VENV)/installed-s3

test: setup  ## run the tests
	$(PYTEST) -m "not slow" --ignore tests/pipeline

test-pipeline: setup  ## run the tests of rules and stages, which run the tiny preset first
	$(PYTEST) -m "not slow" tests/pipeline

test-slow: setup  ## run all tests; with FILES=... only the slow ones of these
	$(PYTEST) $(if $(FILES),-m slow $(FILES))

fuzz: setup  ## run almost 2,000 hostile inputs on the command line, print what was found by kind (12 minutes on 2 cores); FUZZ="--only 'K-*'"
	$(RUN) python -m tests.hostile.fuzz $(FUZZ)

fuzz-driver: setup  ## run the parsers of the driver of mlgo cc under libFuzzer for SECONDS; needs clang-19 and libclang-rt-19-dev
	$(RUN) python -m tests.hostile.driver_fuzz $(SECONDS)

check: setup $(VENV)/installed-docs  ## linters, formatters, types, workflow, the site
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) snakefmt --check Snakefile workflow
	$(RUN) python scripts/lint_workflow.py
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs build --strict

docs: setup $(VENV)/installed-docs  ## build the documentation as a site in data/site, and serve it until Ctrl-C
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs serve --strict

format: setup  ## format everything
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	$(RUN) snakefmt Snakefile workflow

tiny:  ## the main job on the sample corpus, in about 3 minutes
	$(MAKE) main PRESET=tiny

truth: setup  ## what the last run shows to a strict reader: what ships, over projects, against what, at what cost
	@$(RUN) mlgo report truth $(if $(PRESET),--preset config/presets/$(PRESET).yaml)

readme: setup  ## keep the small tables of the last run and of the looks at the sealed test set, and make README's table anew
	$(RUN) python scripts/keep_results.py --data data --output docs/results/run
	$(if $(LOOKS),$(RUN) python scripts/keep_results.py --looks $(LOOKS) --output docs/results/sealed)
	$(RUN) mlgo report truth --data docs/results/run --markdown docs/results/run.md > /dev/null
	$(RUN) mlgo report truth --data docs/results/sealed --into README.md

headroom: setup  ## search for smaller code, then print what share of it the policies captured
	$(SNAKEMAKE) -- headroom
	@$(RUN) mlgo report headroom

programs: setup  ## build and run the programs under all policies, then print what that changed; needs valgrind
	$(SNAKEMAKE) -- programs
	@$(RUN) mlgo report programs

scoreboard: setup  ## train all learners at equal compile budgets, one seed, write docs/results/scoreboard.md (2 hours on 2 cores)
	$(SNAKEMAKE) --configfile config/presets/scoreboard.yaml -- evaluate
	@$(RUN) mlgo report scoreboard --preset config/presets/scoreboard.yaml --markdown docs/results/scoreboard.md

generalisation: setup  ## train and test across languages and compilers, write docs/results/generalisation.md (2 hours on 2 cores)
	$(SNAKEMAKE) $(if $(PRESET),,--configfile config/presets/generalisation.yaml) -- generalisation
	@$(RUN) mlgo report generalisation --markdown docs/results/generalisation.md

sweep: setup  ## train under settings that vary, print what each point gains; PRESET names the sweep, else six step sizes
	$(SNAKEMAKE) $(if $(PRESET),,--configfile config/presets/sweep.yaml) -- sweep
	@$(RUN) mlgo report sweep

dist: setup  ## build the source distribution and the wheel of this package in dist/, the same bytes each time
	$(RUN) python scripts/build_dist.py -o dist

policies: setup  ## build the package mlgo-policies in dist/, from data/released
	$(RUN) mlgo publish data/released --wheel -o dist --force

release-check: dist  ## install the wheel on every Python that is here, drive each clang with it, print what works with what; PYTHONS="FILE ..."
	$(RUN) PYTHONS="$(PYTHONS)" python scripts/release_check.py

composition: setup  ## what forms of a build save before any policy, and what a policy adds to each, on wheels to validate on; POLICY=marginal-s0
	$(SNAKEMAKE) --configfile config/presets/merged.yaml --config 'compile={objective: text_bytes, ships: {form: objects}}' -- data/composition/$(or $(POLICY),marginal-s0).txt
	@cat data/composition/$(or $(POLICY),marginal-s0).txt

sealed: export MLGO_REASON = $(REASON)
sealed: setup  ## look at the sealed test set: POLICY=marginal-s0 REASON="..." [SHIPS="objects whole,folding=all"] [SET=sealed-rust]; the log keeps the reason
	@$(if $(and $(POLICY),$(REASON)),,echo 'error: give POLICY=<name in data/policies> and REASON="..."; docs/$(or $(SET),sealed)-looks.md keeps the reason' >&2; exit 1)
	$(SNAKEMAKE) --config "look=$(POLICY)" "ships=$(SHIPS)" "set=$(SET)" -- sealed

sealed-corpus: setup  ## build the sealed test set, or that of SET=sealed-rust, without a look at it
	$(SNAKEMAKE) --config "set=$(SET)" -- sealed_corpus

dry-run: setup  ## what the main job would do
	$(SNAKEMAKE) --dry-run

clean:  ## remove results (downloads, checkpoints and response trees in data/work stay)
	rm -rf data/corpus data/baseline data/policies data/export data/evaluation data/report data/headroom data/execution data/generalisation data/sweep data/cse

help:  ## show this
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 12
