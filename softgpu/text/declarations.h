/*
 * declarations.h - which names a declaration declares, by its tokens.
 */
#ifndef SOFTGPU_TEXT_DECLARATIONS_H
#define SOFTGPU_TEXT_DECLARATIONS_H

#include "text/tokens.h"

/*
 * The name that the declarator in tokens from..to declares, with or without its specifiers: `const float *__restrict__
 * x`, `x[4][N]`, `void (*f)(int)`, `T (&a)[3]`, `Args... args`. Returns `to` if it declares none (`int`, `T *`,
 * `Args...`), with *insert_p where one could be put.
 */
uint32_t token_declared_name(const struct code *code, uint32_t from, uint32_t to, uint32_t *insert_p);

/* Behind the end of the piece that starts at `from`: the next ',' outside of brackets and template arguments, or `to`.
 */
uint32_t token_piece_end(const struct code *code, uint32_t from, uint32_t to);

/* Whether a statement declares a name: `float *name = ...`, `int other, name;`, `auto &[a, name] = ...`. Of an
 * expression that could be a declaration, as `a * b;`, it is one. */
bool token_declares(const struct code *code, struct token_range statement, const char *name, size_t length);

#endif
