"""`python -m triton_ascend_compat …` is the command line."""

from triton_ascend_compat.cli import main

if __name__ == "__main__":
    main()
