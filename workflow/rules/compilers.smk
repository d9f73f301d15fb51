# Compilers: main, that of the default run with its corpus and baseline, and those of generalisation.compilers.
include: "common.smk"


WHEELS = config["generalisation"]["compilers"]
COMPILERS = ["main", *WHEELS]


wildcard_constraints:
    wheel=r"llvm\d+",
    learnt=r"main|llvm\d+",
    tested=r"main|llvm\d+",


def zig(compiler):
    return f"data/work/compilers/{compiler}/ziglang/zig"


def needed(compiler):
    """What must be there to use a compiler. When it was unpacked does not matter: its content is pinned."""
    return [] if compiler == "main" else [ancient(zig(compiler))]


def home(compiler):
    """Folder with the corpus that a compiler's front end made, and with its baseline."""
    return "data" if compiler == "main" else f"data/generalisation/{compiler}"


def compiled_by(compiler, **options):
    """Command-line options of a program that uses a compiler."""
    toolchain = config["toolchain"] if compiler == "main" else zig(compiler)
    return settings(**COMPILER | {"toolchain": toolchain}, **options)
