# Thin names over ./run, which makes its own virtual environment. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint docs check evals faults extension wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

setup: ## make .venv with everything installed
	./run setup

demo: ## load a few memories into an embedded Postgres and recall them
	./run demo

test: ## the whole test suite
	./run test

lint: ## ruff, mypy, the SQL rules; starts no server
	./run check --lint-only

docs: ## write docs/errors.md, docs/sql-api.md, docs/coverage.md and the Unicode tables again
	./run docs

check: ## lint, frozen migrations, and every generated file fresh
	./run check

evals: ## recall on a conversation file: make evals FILE=path/to/conversations.json
	@test -n "$(FILE)" || { echo 'usage: make evals FILE=path/to/conversations.json' >&2; exit 2; }
	./run evals locomo "$(FILE)"

faults: ## break servers under writers; prints acknowledged, found and lost for each fault
	./run evals faults

extension: ## write the files of CREATE EXTENSION remem into dist/extension/
	./run python -m scripts.extension

wheel: ## build the wheel and the source archive into dist/
	./run python -m build --outdir dist .

clean: ## remove .venv, builds and caches
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
