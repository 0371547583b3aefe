"""`python -m supervisor.cli`: the same as `vigil`."""

from supervisor.cli.main import main

if __name__ == "__main__":
    main()
