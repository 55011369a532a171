/*
 * options.h - what the user asked for: nvcc's command line, read into a plain struct by one table (options.c).
 */
#ifndef SOFTGPU_CC_OPTIONS_H
#define SOFTGPU_CC_OPTIONS_H

#include "text.h"

enum phase {
    PHASE_LINK,          /* compile and link; the default */
    PHASE_COMPILE,       /* -c, -dc */
    PHASE_PREPROCESS,    /* -E */
    PHASE_DEPENDENCIES,  /* -M, -MM */
    PHASE_DEVICE_LINK,   /* -dlink: there is nothing to do, but an object is expected */
    PHASE_ARCHIVE,       /* -lib */
    PHASE_ARCHITECTURES, /* --list-gpu-arch, --list-gpu-code */
    PHASE_VERSION,
    PHASE_HELP,
};

enum language { LANGUAGE_CUDA, LANGUAGE_CXX, LANGUAGE_C, LANGUAGE_OBJECT };

/* Inputs and libraries, in the order of the command line, which matters to the linker. */
struct item {
    bool is_input;          /* a file; else an argument for the linker */
    enum language language; /* of an input */
    char *text;
};

struct options {
    enum phase phase;
    struct item *items;
    size_t item_count, item_capacity;
    char *output;                   /* -o, or NULL */
    char *output_dir;               /* -odir, for what -o does not name, or NULL */
    char *standard;                 /* "c++17", or NULL: the host compiler's own */
    char *optimisation;             /* "3" of -O3, or NULL */
    char *compiler;                 /* -ccbin, or NULL */
    char *forced_language;          /* -x, or NULL */
    char *keep_dir;                 /* --keep-dir, or NULL: the current folder */
    char *dependency_file;          /* -MF, or NULL */
    char *archive_options;          /* -Xarchive, or NULL */
    char *archiver;                 /* -arbin, or NULL */
    char *architecture_prefix;      /* "compute" or "sm", with PHASE_ARCHITECTURES */
    struct list run_arguments;      /* -run-args */
    struct list preprocess;         /* -I -isystem -D -U -include, ready for the host compiler */
    struct list system_dirs;        /* the folders of -isystem */
    struct list host;               /* -Xcompiler */
    struct list dependency_targets; /* -MT */
    bool with_dependencies;         /* -MD, -MMD */
    bool no_system_dependencies;    /* -MM, -MMD */
    bool phony_dependencies;        /* -MP */
    bool is_relocatable;
    bool is_shared;
    bool debug, device_debug, profile;
    bool fast_math;
    bool per_thread_stream;
    bool extended_lambda, relaxed_constexpr;
    bool allows_removed;   /* --allow-removed */
    bool shares_templates; /* -static-global-template-stub=false */
    bool no_warnings, warnings_are_errors;
    bool no_fused_multiply_add; /* -fmad=false */
    bool forward_unknown;       /* -forward-unknown-to-host-compiler */
    bool forward_to_linker;     /* -forward-unknown-to-host-linker: what is not for the compiler, too */
    bool run;                   /* -run */
    bool static_runtime_asked;  /* -cudart static, -lcudart_static */
    bool keep, dry_run, verbose;
    /* --softgpu-module: link a module (softgpu/module.h) and write it to standard output. --softgpu-module-folder: the
       private folder, filled from standard input; it is removed at the end, also if the caller dies.
       --softgpu-module-dir: in the place of -I. --softgpu-module-default: a function without __device__ is one of the
       device; else an error. */
    bool is_module, device_is_default;
    char *module_folder; /* or NULL */
    const char *image;   /* "ptx", "cubin", "fatbin": the module becomes a file; NULL: it goes to standard output */
    bool is_linker;      /* set by the caller: called as softgpu-link */
};

/*
 * Reads arguments (without the program's name), after those in $NVCC_PREPEND_FLAGS and before those in
 * $NVCC_APPEND_FLAGS. Returns false after a message that names the argument.
 */
bool options_read(struct options *options, const struct list *arguments) __attribute__((warn_unused_result));

/* Writes all options to stdout, from the same table. */
void options_help(void);

#endif
