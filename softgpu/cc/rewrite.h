/*
 * rewrite.h - from preprocessed CUDA source to preprocessed C++ that the host compiler takes.
 */
#ifndef SOFTGPU_CC_REWRITE_H
#define SOFTGPU_CC_REWRITE_H

#include "lex.h"

struct rewrite_options {
    bool is_relocatable;    /* -rdc=true */
    bool allows_removed;    /* --allow-removed */
    bool shares_templates;  /* -static-global-template-stub=false */
    bool is_module;         /* --softgpu-module */
    bool device_is_default; /* --softgpu-module-default */
    bool quiets_device;     /* the host compiler is not to warn of device code */
    struct lex_paths paths; /* which headers are passed through */
};

/*
 * Appends the rewritten source to *out. Lines stay where they are, so that the host compiler's messages point into the
 * user's file. Returns false after messages of the form "file:line: error: ..."; *out is then untouched.
 */
bool rewrite(const char *text, size_t length, const struct rewrite_options *options, struct text *out)
    __attribute__((warn_unused_result));

#endif
