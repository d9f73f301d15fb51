// Ninja: a build file parsed to a graph of edges, commands expanded, files of dependencies read.
#include "depfile_parser.h"
#include "disk_interface.h"
#include "driver.h"
#include "graph.h"
#include "manifest_parser.h"
#include "state.h"
#include "util.h"

struct NoFiles : public FileReader {
    Status ReadFile(const std::string &, std::string *, std::string *err) override
    {
        *err = "there are no files";
        return NotFound;
    }
};

int main()
{
    std::string text = "cflags = -O2 -Wall\nrule cc\n  command = cc $cflags -MF $out.d -c $in -o $out\n  depfile = $out.d\n"
                       "rule link\n  command = cc $in -o $out\n", error;
    std::string objects;
    for (int i = 0; i < 120; i++) {
        std::string name = "out/dir" + std::to_string(i % 7) + "/../file" + std::to_string(i);
        text += "build " + name + ".o: cc src/file" + std::to_string(i) + ".c | header" + std::to_string(driver_random() % 9) +
                ".h\n  cflags = $cflags -DN=" + std::to_string(driver_random() % 100) + "\n";
        objects += " " + name + ".o";
    }
    text += "build program: link" + objects + "\ndefault program\n";
    State state;
    NoFiles files;
    ManifestParser parser(&state, &files);
    if (!parser.ParseTest(text, &error)) {
        printf("%s\n", error.c_str());
        return 1;
    }
    uint32_t sum = DRIVER_SUM;
    for (const Edge *edge : state.edges_) {
        std::string command = edge->EvaluateCommand(true);
        sum = driver_sum(sum, command.data(), command.size());
    }
    size_t inputs = 0;
    for (int i = 0; i < 60; i++) {
        std::string depfile = "out/file.o: src/file.c \\\n";
        for (int j = 0; j < 20; j++)
            depfile += "  include/a\\ b/header" + std::to_string(driver_random() % 500) + ".h \\\n";
        depfile += "\n";
        DepfileParser depfile_parser;
        if (!depfile_parser.Parse(&depfile, &error))
            return 2;
        inputs += depfile_parser.ins_.size();
        for (const StringPiece &in : depfile_parser.ins_)
            sum = driver_sum(sum, in.str_, in.len_);
    }
    printf("%zu edges, %zu inputs, sum %08x\n", state.edges_.size(), inputs, sum);
    return 0;
}
