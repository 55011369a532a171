// cxx.cpp FOLDER - what C++ programs do with files: streams, which libstdc++ opens, and std::filesystem. As calls.c: it
// passes with the library and without it. Exits 1 if anything differs.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

namespace fs = std::filesystem;

static int failed;

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " << #condition << "\n"; \
            failed = 1;                                                             \
        }                                                                           \
    } while (0)

static std::string
content(const fs::path &path)
{
    std::ifstream stream(path);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
}

static void
check_streams()
{
    std::ofstream("made") << "made";
    CHECK(content("made") == "made");
    std::ofstream("kept", std::ios::app) << "more\n";
    CHECK(content("kept") == "kept\nmore\n");
    std::fstream both("sub/one", std::ios::in | std::ios::out);
    CHECK(both.is_open());
    both << "ONE";
    both.close();
    CHECK(content("sub/one") == "ONE\n");
    CHECK(!std::ofstream("none/x").is_open());
    std::ofstream("sub/two", std::ios::trunc) << "2";
    CHECK(content("sub/two") == "2");
    FILE *redirected = std::freopen("log.txt", "w", stdout);
    CHECK(redirected != nullptr);
    std::cout << "to the log" << std::endl;
    CHECK(content("log.txt") == "to the log\n");
}

static void
check_filesystem()
{
    const fs::path here = fs::current_path();
    fs::create_directories("checkpoints/step_1");
    std::ofstream("checkpoints/step_1/weights.tmp") << "weights";
    fs::rename("checkpoints/step_1/weights.tmp", "checkpoints/step_1/weights.bin");
    CHECK(fs::exists("checkpoints/step_1/weights.bin") && !fs::exists("checkpoints/step_1/weights.tmp"));
    CHECK(fs::file_size("checkpoints/step_1/weights.bin") == 7);
    fs::copy("checkpoints", "copy", fs::copy_options::recursive);
    CHECK(content("copy/step_1/weights.bin") == "weights");
    fs::copy_file("untouched", "copy/untouched");
    CHECK(content("copy/untouched") == "untouched\n");
    fs::copy_file("untouched", "sub/one", fs::copy_options::overwrite_existing);
    CHECK(content("sub/one") == "untouched\n");
    std::set<std::string> names;
    for (const auto &entry : fs::recursive_directory_iterator("sub"))
        names.insert(fs::relative(entry.path(), "sub"));
    CHECK((names == std::set<std::string>{"deep", "deep/four", "deep/three", "one", "two"}));
    fs::resize_file("sub/deep/three", 1);
    CHECK(content("sub/deep/three") == "t");
    fs::permissions("untouched", fs::perms::owner_read);
    CHECK(fs::status("untouched").permissions() == fs::perms::owner_read);
    fs::create_symlink("sub/deep", "link");
    CHECK(fs::read_symlink("link") == "sub/deep" && fs::canonical("link/four") == here / "sub/deep/four");
    CHECK(fs::equivalent("link/four", "sub/deep/four"));
    fs::last_write_time("sub/two", fs::file_time_type::clock::now());
    CHECK(fs::remove("to_file") && !fs::exists(fs::symlink_status("to_file")));
    const auto removed = fs::remove_all("sub");
    CHECK(removed == 6 && !fs::exists("sub"));
    fs::create_directory("sub");
    CHECK(fs::is_empty("sub"));
    fs::current_path("checkpoints");
    CHECK(fs::current_path() == here / "checkpoints" && content("step_1/weights.bin") == "weights");
    fs::current_path(here);
    fs::rename("checkpoints", "sub");
    CHECK(content("sub/step_1/weights.bin") == "weights");
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    fs::current_path(argv[1]);
    try {
        check_streams();
        check_filesystem();
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        failed = 1;
    }
    return failed;
}
