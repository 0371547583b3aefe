# Everything that CI runs, and nothing else. docs/operations.md says what each one needs.
#   make demo  [ARGS="--exit --json"]   shows it all on this machine
#   make test  [ARGS="-k words"]        all tests
#   make check                          format, lint, types, import rules, unit tests
#   make bench                          the benchmarks; writes bench.json
MAKEFLAGS += --no-print-directory
PYTHON ?=
TORCH_INDEX_URL ?=
ARGS ?=
BIN := .venv/bin
export PYTHON TORCH_INDEX_URL

.PHONY: demo test check bench
.DEFAULT_GOAL := demo

demo:
	@deploy/prepare.sh demo
	@$(BIN)/vigil demo $(ARGS)

test:
	@deploy/prepare.sh test
	@$(BIN)/python -m pytest -ra $(ARGS)

check:
	@deploy/prepare.sh test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --target=3.10- --violations --no-tips supervisor/probe
	$(BIN)/python -m pytest -q -n auto tests/unit

bench:
	@deploy/prepare.sh test
	@$(BIN)/python -m tests.bench $(ARGS)
