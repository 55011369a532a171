/*
 * option_table.c - see option_table.h: the table at the end of this file is the whole of nvcc's options that softgpu-cc
 * knows, and the functions before it put their values into struct options.
 *
 * A name that is in the table is honoured, or means nothing where there is no GPU (-arch); all others are refused.
 */
#include "option_table.h"

#include <stdlib.h>
#include <string.h>

/* ---- handlers ---- */

void
options_add_item(struct options *options, bool is_input, enum language language, const char *text)
{
    if (options->item_count == options->item_capacity) {
        options->item_capacity = 2 * (options->item_capacity + 8);
        options->items = memory_grow(options->items, options->item_capacity * sizeof(*options->items));
    }
    options->items[options->item_count++] = (struct item){is_input, language, text_format("%s", text)};
}

static bool
set_phase(struct options *options, enum phase phase)
{
    options->phase = phase;
    return true;
}

#define PHASE_HANDLER(name, phase)                               \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        (void)value;                                             \
        return set_phase(options, phase);                        \
    }
PHASE_HANDLER(on_link, PHASE_LINK)
PHASE_HANDLER(on_compile, PHASE_COMPILE)
PHASE_HANDLER(on_preprocess, PHASE_PREPROCESS)
PHASE_HANDLER(on_dependencies, PHASE_DEPENDENCIES)
PHASE_HANDLER(on_device_link, PHASE_DEVICE_LINK)
PHASE_HANDLER(on_archive, PHASE_ARCHIVE)
PHASE_HANDLER(on_version, PHASE_VERSION)
PHASE_HANDLER(on_help, PHASE_HELP)

#define SWITCH_HANDLER(name, member)                             \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        options->member = strcmp(value, "false") != 0;           \
        return true;                                             \
    }
SWITCH_HANDLER(on_relocatable, is_relocatable)
SWITCH_HANDLER(on_shared, is_shared)
SWITCH_HANDLER(on_debug, debug)
SWITCH_HANDLER(on_device_debug, device_debug)
SWITCH_HANDLER(on_profile, profile)
SWITCH_HANDLER(on_fast_math, fast_math)
SWITCH_HANDLER(on_extended_lambda, extended_lambda)
SWITCH_HANDLER(on_relaxed_constexpr, relaxed_constexpr)
SWITCH_HANDLER(on_no_warnings, no_warnings)
SWITCH_HANDLER(on_allow_removed, allows_removed)
SWITCH_HANDLER(on_keep, keep)
SWITCH_HANDLER(on_dry_run, dry_run)
SWITCH_HANDLER(on_verbose, verbose)
SWITCH_HANDLER(on_with_dependencies, with_dependencies)
SWITCH_HANDLER(on_phony, phony_dependencies)
SWITCH_HANDLER(on_forward_unknown, forward_unknown)
SWITCH_HANDLER(on_forward_to_linker, forward_to_linker)
SWITCH_HANDLER(on_run, run)
SWITCH_HANDLER(on_module, is_module)
SWITCH_HANDLER(on_device_default, device_is_default)

#define STRING_HANDLER(name, member)                             \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        options->member = text_format("%s", value);              \
        return true;                                             \
    }
STRING_HANDLER(on_output, output)
STRING_HANDLER(on_compiler, compiler)
STRING_HANDLER(on_keep_dir, keep_dir)
STRING_HANDLER(on_dependency_file, dependency_file)
STRING_HANDLER(on_archive_options, archive_options)
STRING_HANDLER(on_archiver, archiver)
STRING_HANDLER(on_output_dir, output_dir)
STRING_HANDLER(on_module_folder, module_folder)

/* -MM, -MMD: as -M, -MD, without system headers. */
static bool
on_short_dependencies(struct options *options, const char *value)
{
    options->no_system_dependencies = true;
    return on_dependencies(options, value);
}

static bool
on_with_short_dependencies(struct options *options, const char *value)
{
    options->no_system_dependencies = true;
    return on_with_dependencies(options, value);
}

static bool
on_dependency_target(struct options *options, const char *value)
{
    list_add(&options->dependency_targets, value);
    return true;
}

static bool
on_relocatable_compile(struct options *options, const char *value)
{
    options->is_relocatable = true;
    return on_compile(options, value);
}

static bool
on_not_relocatable_compile(struct options *options, const char *value)
{
    options->is_relocatable = false;
    return on_compile(options, value);
}

static bool
on_static_template(struct options *options, const char *value)
{
    options->shares_templates = strcmp(value, "false") == 0;
    return true;
}

static bool
on_multiply_add(struct options *options, const char *value)
{
    options->no_fused_multiply_add = strcmp(value, "false") == 0;
    return true;
}

static bool
on_optimisation(struct options *options, const char *value)
{
    if (value[0] == '\0' || value[strspn(value, "0123456789")] != '\0') {
        complain("-O%s: the optimisation level is a number, 0 to 3", value);
        return false;
    }
    const bool is_known = value[0] <= '3' && value[1] == '\0';
    options->optimisation = text_format("%s", is_known ? value : "3"); /* as host compilers have it */
    return true;
}

static bool
on_standard(struct options *options, const char *value)
{
    static const char *const known[] = {"c++03", "c++11", "c++14", "c++17", "c++20", "c++23"};
    for (size_t i = 1; i < sizeof(known) / sizeof(known[0]); ++i) {
        if (strcmp(known[i], value) == 0) {
            options->standard = text_format("%s", value);
            return true;
        }
    }
    complain("-std=%s: c++11, c++14, c++17, c++20 and c++23 are possible", value);
    return false;
}

static bool
on_language(struct options *options, const char *value)
{
    if (strcmp(value, "cu") != 0 && strcmp(value, "c") != 0 && strcmp(value, "c++") != 0) {
        complain("-x %s: cu, c and c++ are possible", value);
        return false;
    }
    options->forced_language = text_format("%s", value);
    return true;
}

/* -I, -D and -U may hold several values between commas in nvcc's grammar. */
static bool
add_preprocess(struct options *options, const char *option, const char *value)
{
    struct list pieces = {0};
    list_add_commas(&pieces, value);
    for (size_t i = 0; i < pieces.count; ++i)
        list_add_format(&options->preprocess, "%s%s", option, pieces.items[i]);
    list_free(&pieces);
    return true;
}

#define PREPROCESS_HANDLER(name, option)                         \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        return add_preprocess(options, option, value);           \
    }
PREPROCESS_HANDLER(on_include_dir, "-I")
PREPROCESS_HANDLER(on_undefine, "-U")

/* "NAME", "NAME=value", "NAME(a" */
static bool
is_definition(const char *piece)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *end = piece + strspn(piece, word);
    return end > piece && strchr("0123456789", *piece) == NULL && (*end == '\0' || *end == '=' || *end == '(');
}

/* Split at commas as by nvcc, but not where that leaves what cannot be a macro: -DVERSION(a,b)=a, -DLIST=1,2. */
static bool
on_define(struct options *options, const char *value)
{
    struct list pieces = {0};
    list_add_commas(&pieces, value);
    for (size_t i = 0; i < pieces.count;) {
        struct text macro = {0};
        text_append_string(&macro, pieces.items[i++]);
        while (i < pieces.count && !is_definition(pieces.items[i]))
            text_append_format(&macro, ",%s", pieces.items[i++]);
        list_add_format(&options->preprocess, "-D%s", macro.data);
        text_free(&macro);
    }
    list_free(&pieces);
    return true;
}

static bool
on_system_dir(struct options *options, const char *value)
{
    struct list pieces = {0};
    list_add_commas(&pieces, value);
    for (size_t i = 0; i < pieces.count; ++i) {
        list_add(&options->preprocess, "-isystem");
        list_add(&options->preprocess, pieces.items[i]);
        list_add(&options->system_dirs, pieces.items[i]);
    }
    list_free(&pieces);
    return true;
}

static bool
on_include_file(struct options *options, const char *value)
{
    list_add(&options->preprocess, "-include");
    list_add(&options->preprocess, value);
    return true;
}

/* A folder of a module's headers: found by "..." before and by <...> after the standard headers and CUDA's, which are
 * the machine's own. */
static bool
on_module_dir(struct options *options, const char *value)
{
    static const char *const ways[] = {"-iquote", "-idirafter"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); ++i) {
        list_add(&options->preprocess, ways[i]);
        list_add(&options->preprocess, value);
    }
    list_add(&options->system_dirs, value);
    return true;
}

/* The same for the linker, among the inputs. NULL: each value is an option itself. */
static bool
add_link_items(struct options *options, const char *option, const char *value)
{
    struct list pieces = {0};
    list_add_commas(&pieces, value);
    for (size_t i = 0; i < pieces.count; ++i) {
        char *text = text_format("%s%s", option != NULL ? option : "", pieces.items[i]);
        if (option == NULL)
            options_add_item(options, false, LANGUAGE_OBJECT, "-Xlinker");
        options_add_item(options, false, LANGUAGE_OBJECT, text);
        free(text);
    }
    list_free(&pieces);
    return true;
}

#define LINK_HANDLER(name, option)                               \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        return add_link_items(options, option, value);           \
    }
LINK_HANDLER(on_library, "-l")
LINK_HANDLER(on_library_dir, "-L")
LINK_HANDLER(on_linker, NULL)

static bool
on_host(struct options *options, const char *value)
{
    struct list pieces = {0};
    list_add_commas(&pieces, value);
    for (size_t i = 0; i < pieces.count; ++i)
        list_add_words(&options->host, pieces.items[i]);
    list_free(&pieces);
    return true;
}

static bool
on_runtime(struct options *options, const char *value)
{
    if (strcmp(value, "static") == 0) {
        options->static_runtime_asked = true;
        return true;
    }
    if (strcmp(value, "shared") == 0 || strcmp(value, "none") == 0)
        return true;
    complain("-cudart %s: shared, static and none are possible", value);
    return false;
}

static bool
on_default_stream(struct options *options, const char *value)
{
    options->per_thread_stream = strcmp(value, "per-thread") == 0;
    if (options->per_thread_stream || strcmp(value, "legacy") == 0 || strcmp(value, "null") == 0)
        return true;
    complain("--default-stream %s: legacy, null and per-thread are possible", value);
    return false;
}

static bool
on_machine(struct options *options, const char *value)
{
    (void)options;
    if (strcmp(value, "64") == 0)
        return true;
    complain("-m%s: 64 is possible", value);
    return false;
}

static bool
on_errors(struct options *options, const char *value)
{
    if (strstr(value, "all-warnings") != NULL)
        options->warnings_are_errors = true;
    return true;
}

/* For the host compiler, by its own name. */
#define HOST_HANDLER(name, option)                               \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        list_add_format(&options->host, option "=%s", value);    \
        return true;                                             \
    }
HOST_HANDLER(on_template_depth, "-ftemplate-depth")
HOST_HANDLER(on_template_backtrace, "-ftemplate-backtrace-limit")
HOST_HANDLER(on_random_seed, "-frandom-seed")

static bool
on_no_exceptions(struct options *options, const char *value)
{
    (void)value;
    list_add(&options->host, "-fno-exceptions");
    return true;
}

static bool
on_forward_all(struct options *options, const char *value)
{
    return on_forward_unknown(options, value) && on_forward_to_linker(options, value);
}

static bool
on_run_arguments(struct options *options, const char *value)
{
    list_add_commas(&options->run_arguments, value);
    return true;
}

static bool
on_list_virtual(struct options *options, const char *value)
{
    (void)value;
    options->architecture_prefix = text_format("compute");
    return set_phase(options, PHASE_ARCHITECTURES);
}

static bool
on_list_real(struct options *options, const char *value)
{
    (void)value;
    options->architecture_prefix = text_format("sm");
    return set_phase(options, PHASE_ARCHITECTURES);
}

/* A module for a file. Its host code, which nvcc leaves out, is compiled and never called. */
static bool
make_image(struct options *options, const char *form)
{
    options->image = form;
    options->is_module = true;
    options->device_is_default = true;
    list_add(&options->preprocess, "-DSOFTGPU_MODULE=800");
    list_add(&options->preprocess, "-DSOFTGPU_MODULE_FILE");
    return true;
}

#define IMAGE_HANDLER(name, form)                                \
    static bool name(struct options *options, const char *value) \
    {                                                            \
        (void)value;                                             \
        return make_image(options, form);                        \
    }
IMAGE_HANDLER(on_ptx, "ptx")
IMAGE_HANDLER(on_cubin, "cubin")
IMAGE_HANDLER(on_fatbin, "fatbin")

static bool
on_device_image(struct options *options, const char *value)
{
    (void)options;
    (void)value;
    complain("-cuda, -optix-ir and -ltoir make code for GPUs; softgpu-cc makes code for CPUs: use -c or -ptx");
    return false;
}

/* ---- the table ---- */

const struct option option_table[] = {
    {"compile", "c", VALUE_NONE, on_compile, "compile each input to an object file"},
    {"device-c", "dc", VALUE_NONE, on_relocatable_compile, "-c with -rdc=true"},
    {"device-w", "dw", VALUE_NONE, on_not_relocatable_compile, "-c with -rdc=false"},
    {"device-link", "dlink", VALUE_NONE, on_device_link,
     "make an empty object: device code needs no link step of its own"},
    {"link", "link", VALUE_NONE, on_link, "compile and link: the default"},
    {"lib", "lib", VALUE_NONE, on_archive, "put all objects into a static library"},
    {"run", "run", VALUE_NONE, on_run, "compile, link and run the program; or run the program that is the input"},
    {"run-args", "run-args", VALUE_NEEDED, on_run_arguments, "its arguments, between commas"},
    {"preprocess", "E", VALUE_NONE, on_preprocess, "preprocess only, to standard output or -o"},
    {"generate-dependencies", "M", VALUE_NONE, on_dependencies, "write a make rule instead of compiling"},
    {"generate-nonsystem-dependencies", "MM", VALUE_NONE, on_short_dependencies, "-M without system headers"},
    {"generate-dependencies-with-compile", "MD", VALUE_NONE, on_with_dependencies, "write a make rule while compiling"},
    {"generate-nonsystem-dependencies-with-compile", "MMD", VALUE_NONE, on_with_short_dependencies,
     "-MD without system headers"},
    {"dependency-output", "MF", VALUE_NEEDED, on_dependency_file, "where the make rule goes"},
    {"dependency-target-name", "MT", VALUE_NEEDED, on_dependency_target, "the make rule's target"},
    {"generate-dependency-targets", "MP", VALUE_NONE, on_phony, "an empty rule for each header"},
    {"output-file", "o", VALUE_GLUED, on_output, "the output file"},
    {"output-directory", "odir", VALUE_NEEDED, on_output_dir, "where outputs go that -o does not name"},
    {"x", "x", VALUE_NEEDED, on_language, "take all inputs as cu, c or c++"},
    {"std", "std", VALUE_NEEDED, on_standard, "c++11, c++14, c++17, c++20 or c++23"},
    {"optimize", "O", VALUE_GLUED, on_optimisation, "0 to 3; in CUDA source 1 and 2 act like 3"},
    {"debug", "g", VALUE_NONE, on_debug, "debug information"},
    {"device-debug", "G", VALUE_NONE, on_device_debug, "debug information, no optimisation unless -O is given"},
    {"generate-line-info", "lineinfo", VALUE_NONE, NULL, NULL},
    {"profile", "pg", VALUE_NONE, on_profile, "instrument for gprof"},
    {"define-macro", "D", VALUE_GLUED, on_define, "define a macro"},
    {"undefine-macro", "U", VALUE_GLUED, on_undefine, "undefine a macro"},
    {"include-path", "I", VALUE_GLUED, on_include_dir, "search headers here"},
    {"system-include", "isystem", VALUE_NEEDED, on_system_dir, "search headers here, later, and without warnings"},
    {"pre-include", "include", VALUE_NEEDED, on_include_file, "read this header first"},
    {"library", "l", VALUE_GLUED, on_library, "link this library"},
    {"library-path", "L", VALUE_GLUED, on_library_dir, "search libraries here"},
    {"shared", "shared", VALUE_NONE, on_shared, "link a shared library"},
    {"cudart", "cudart", VALUE_NEEDED, on_runtime, "shared, static or none; the stand-in's runtime is always shared"},
    {"cudadevrt", "cudadevrt", VALUE_NEEDED, NULL, NULL},
    {"compiler-options", "Xcompiler", VALUE_NEEDED, on_host, "for the host compiler"},
    {"linker-options", "Xlinker", VALUE_NEEDED, on_linker, "for the linker"},
    {"archive-options", "Xarchive", VALUE_NEEDED, on_archive_options, "for ar"},
    {"archiver-binary", "arbin", VALUE_NEEDED, on_archiver, "the program in the place of ar"},
    {"compiler-bindir", "ccbin", VALUE_NEEDED, on_compiler,
     "the host C++ compiler, or its folder; default $NVCC_CCBIN, then g++"},
    {"allow-unsupported-compiler", "allow-unsupported-compiler", VALUE_NONE, NULL, NULL},
    {"ptx", "ptx", VALUE_NONE, on_ptx, "make a file of kernels for cuModuleLoad: code for the CPU, as text"},
    {"cubin", "cubin", VALUE_NONE, on_cubin, "the same as bytes"},
    {"fatbin", "fatbin", VALUE_NONE, on_fatbin, NULL},
    {"relocatable-device-code", "rdc", VALUE_SWITCH, on_relocatable,
     "device functions and variables are visible to other files"},
    {"default-stream", "default-stream", VALUE_NEEDED, on_default_stream, "legacy or per-thread"},
    {"use_fast_math", "use_fast_math", VALUE_NONE, on_fast_math,
     "reciprocals for division, no signed zeros; NaN and infinity stay"},
    {"fmad", "fmad", VALUE_NEEDED, on_multiply_add, "false: never fuse a product with a sum"},
    {"extended-lambda", "extended-lambda", VALUE_NONE, on_extended_lambda, "device lambdas (always possible)"},
    {"expt-extended-lambda", "expt-extended-lambda", VALUE_NONE, on_extended_lambda, NULL},
    {"expt-relaxed-constexpr", "expt-relaxed-constexpr", VALUE_NONE, on_relaxed_constexpr,
     "constexpr functions in device code (always possible)"},
    {"allow-removed", "allow-removed", VALUE_NONE, on_allow_removed,
     "supply what CUDA 13 no longer has: cudaThreadSynchronize, __shfl, cudaDeviceProp's clockRate, ..."},
    /* How the stand-in's libnvrtc calls softgpu-cc: see options.h. */
    {"softgpu-module", NULL, VALUE_NONE, on_module, NULL},
    {"softgpu-module-folder", NULL, VALUE_NEEDED, on_module_folder, NULL},
    {"softgpu-module-dir", NULL, VALUE_NEEDED, on_module_dir, NULL},
    {"softgpu-module-default", NULL, VALUE_NONE, on_device_default, NULL},
    {"options-file", "optf", VALUE_FILES, NULL, "read more options from a file"},
    {"keep", "keep", VALUE_NONE, on_keep, "keep intermediate files"},
    {"save-temps", "save-temps", VALUE_NONE, on_keep, NULL},
    {"keep-dir", "keep-dir", VALUE_NEEDED, on_keep_dir, "where they go"},
    {"dryrun", "dryrun", VALUE_NONE, on_dry_run, NULL},
    {"dry-run", NULL, VALUE_NONE, on_dry_run, "show the commands, run none"},
    {"verbose", "v", VALUE_NONE, on_verbose, "show the commands"},
    {"version", "V", VALUE_NONE, on_version, "show the version"},
    {"help", "h", VALUE_NONE, on_help, "show this"},
    {"disable-warnings", "w", VALUE_NONE, on_no_warnings, "no warnings"},
    {"Werror", "Werror", VALUE_NEEDED, on_errors, "all-warnings: warnings are errors"},
    {"machine", "m", VALUE_GLUED_NUMBER, on_machine, NULL},
    {"forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler", VALUE_NONE, on_forward_unknown,
     "pass unknown options to the host compiler instead of refusing them"},
    {"forward-unknown-to-host-linker", "forward-unknown-to-host-linker", VALUE_NONE, on_forward_to_linker,
     "the same for the linker"},
    {"forward-unknown-opts", "forward-unknown-opts", VALUE_NONE, on_forward_all, NULL},
    {"ftemplate-depth", "ftemplate-depth", VALUE_NEEDED, on_template_depth, NULL},
    {"ftemplate-backtrace-limit", "ftemplate-backtrace-limit", VALUE_NEEDED, on_template_backtrace, NULL},
    {"frandom-seed", "frandom-seed", VALUE_NEEDED, on_random_seed, NULL},
    {"no-exceptions", "noeh", VALUE_NONE, on_no_exceptions, NULL},
    {"list-gpu-arch", "arch-ls", VALUE_NONE, on_list_virtual, NULL},
    {"list-gpu-code", "code-ls", VALUE_NONE, on_list_real, NULL},
    {"cuda", "cuda", VALUE_NONE, on_device_image, NULL},
    {"optix-ir", "optix-ir", VALUE_NONE, on_device_image, NULL},
    {"ltoir", "ltoir", VALUE_NONE, on_device_image, NULL},

    /* What says something about a GPU's instructions, or about nvcc itself. */
    {"gpu-architecture", "arch", VALUE_NEEDED, NULL,
     "accepted, as all that concerns GPU instructions: -arch, -gencode, -code, -Xptxas, ..."},
    {"gpu-code", "code", VALUE_NEEDED, NULL, NULL},
    {"generate-code", "gencode", VALUE_NEEDED, NULL, NULL},
    {"maxrregcount", "maxrregcount", VALUE_NEEDED, NULL, NULL},
    {"ptxas-options", "Xptxas", VALUE_NEEDED, NULL, NULL},
    {"nvlink-options", "Xnvlink", VALUE_NEEDED, NULL, NULL},
    {"cudafe-options", "Xcudafe", VALUE_NEEDED, NULL, NULL},
    {"ftz", "ftz", VALUE_NEEDED, NULL, NULL},
    {"prec-div", "prec-div", VALUE_NEEDED, NULL, NULL},
    {"prec-sqrt", "prec-sqrt", VALUE_NEEDED, NULL, NULL},
    {"dopt", "dopt", VALUE_NEEDED, NULL, NULL},
    {"threads", "t", VALUE_GLUED_NUMBER, NULL, NULL},
    {"split-compile", "split-compile", VALUE_NEEDED, NULL, NULL},
    {"resource-usage", "res-usage", VALUE_NONE, NULL, NULL},
    {"restrict", "restrict", VALUE_NONE, NULL, NULL},
    {"source-in-ptx", "src-in-ptx", VALUE_NONE, NULL, NULL},
    {"diag-suppress", "diag-suppress", VALUE_NEEDED, NULL, NULL},
    {"diag-warn", "diag-warn", VALUE_NEEDED, NULL, NULL},
    {"diag-error", "diag-error", VALUE_NEEDED, NULL, NULL},
    {"display-error-number", "err-no", VALUE_NONE, NULL, NULL},
    {"no-display-error-number", "no-err-no", VALUE_NONE, NULL, NULL},
    {"extra-device-vectorization", "extra-device-vectorization", VALUE_NONE, NULL, NULL},
    {"Wno-deprecated-gpu-targets", "Wno-deprecated-gpu-targets", VALUE_NONE, NULL, NULL},
    {"Wno-deprecated-declarations", "Wno-deprecated-declarations", VALUE_NONE, NULL, NULL},
    {"Wreorder", "Wreorder", VALUE_NONE, NULL, NULL},
    {"Wdefault-stream-launch", "Wdefault-stream-launch", VALUE_NONE, NULL, NULL},
    {"Wmissing-launch-bounds", "Wmissing-launch-bounds", VALUE_NONE, NULL, NULL},
    {"Wext-lambda-captures-this", "Wext-lambda-captures-this", VALUE_NONE, NULL, NULL},
    {"static-global-template-stub", "static-global-template-stub", VALUE_NEEDED, on_static_template,
     "false: other files may launch this file's instances of kernel templates"},
    {"dlink-time-opt", "dlto", VALUE_NONE, NULL, NULL},
    {"lto", "lto", VALUE_NONE, NULL, NULL},
    {"gen-opt-lto", "gen-opt-lto", VALUE_NONE, NULL, NULL},
    {"Ofast-compile", "Ofc", VALUE_NEEDED, NULL, NULL},
    {"optimization-info", "opt-info", VALUE_NEEDED, NULL, NULL},
    {"objdir-as-tempdir", "objtemp", VALUE_NONE, NULL, NULL},
    {"libdevice-directory", "ldir", VALUE_NEEDED, NULL, NULL},
    {"target-directory", "target-dir", VALUE_NEEDED, NULL, NULL},
    {"dont-use-profile", "noprof", VALUE_NONE, NULL, NULL},
    {"no-host-device-initializer-list", "nohdinitlist", VALUE_NONE, NULL, NULL},
    {"no-host-device-move-forward", "nohdmoveforward", VALUE_NONE, NULL, NULL},
    {"no-align-double", NULL, VALUE_NONE, NULL, NULL},
    {"no-device-link", "nodlink", VALUE_NONE, NULL, NULL},
    {"entries", "e", VALUE_NEEDED, NULL, NULL},
    {"device-entity-has-hidden-visibility", "device-entity-has-hidden-visibility", VALUE_NEEDED, NULL, NULL},
    {"split-compile-extended", "split-compile-extended", VALUE_NEEDED, NULL, NULL},
    {"fdevice-time-trace", "fdevice-time-trace", VALUE_NEEDED, NULL, NULL},
    {"time", "time", VALUE_NEEDED, NULL, NULL},
    {"keep-device-functions", "keep-device-functions", VALUE_NONE, NULL, NULL},
    {"extensible-whole-program", "ewp", VALUE_NONE, NULL, NULL},
    {"no-compress", "no-compress", VALUE_NONE, NULL, NULL},
    {"compress-mode", "compress-mode", VALUE_NEEDED, NULL, NULL},
    {"brief-diagnostics", "brief-diag", VALUE_NEEDED, NULL, NULL},
    {"jump-table-density", "jtd", VALUE_NEEDED, NULL, NULL},
    {"relocatable-ptx", "reloc-ptx", VALUE_NONE, NULL, NULL},
    {"device-stack-protector", "device-stack-protector", VALUE_NEEDED, NULL, NULL},
    {"jobserver", "jobserver", VALUE_NONE, NULL, NULL},
};

const size_t option_count = sizeof(option_table) / sizeof(option_table[0]);
