"""`mlgo profile` as a user calls it."""

import os
import shutil


def test_what_cannot_be_counted(refuses):
    assert "give the command that runs the program after --" in refuses("profile", "-o", "app.prof")
    assert "cannot start /nowhere/app: no such program" in refuses("profile", "-o", "app.prof", "--", "/nowhere/app")


def test_without_valgrind_nothing_runs(mlgo, tmp_path):
    (tmp_path / "touch").symlink_to(shutil.which("touch"))
    ran, path = tmp_path / "ran", os.pathsep.join([str(tmp_path)])
    run = mlgo("profile", "-o", tmp_path / "app.prof", "--", "touch", ran, PATH=path)
    assert (run.returncode, run.stderr.count("install the package valgrind")) == (1, 1)
    assert not ran.exists()


def test_a_program_without_lines_and_one_that_fails(mlgo, valgrind, tmp_path):
    output = tmp_path / "app.prof"
    run = mlgo("profile", "-o", output, "--", "sh", "-c", "echo done; exit 3")
    assert (run.returncode, run.stdout, output.exists()) == (1, "done\n", False)
    assert "files that ran says which lines its code comes from; build the program with -g1" in run.stderr
