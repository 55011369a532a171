/*
 * walk.h - steps over tokens: template arguments, attributes, postfix expressions, lambdas. Where a
 * step needs more than the next token, it is here once.
 */
#ifndef SOFTGPU_TEXT_WALK_H
#define SOFTGPU_TEXT_WALK_H

#include "text/tokens.h"

/* Behind the '>' that closes the '<' at i: brackets are jumped over. `end` if no such '>' is before it. */
uint32_t token_skip_angles(const struct code *code, uint32_t i, uint32_t end);

/* The '<' that the '>' at i closes, or i if no such '<' is after `begin`. */
uint32_t token_open_angle(const struct code *code, uint32_t i, uint32_t begin);

/* Behind the "template <...>" that begins at i, but not beyond `end`; i: none does. */
uint32_t token_skip_template(const struct code *code, uint32_t i, uint32_t end);

/* `__attribute__((...))`, `alignas(...)` and the like at i: after it. Else i. */
uint32_t token_skip_attribute(const struct code *code, uint32_t i);

/* The first token of the postfix expression that ends before `end`, which is not 0: ns::k<T>, table[i], this->f, (*p),
 * get(). */
uint32_t token_postfix_begin(const struct code *code, uint32_t end);

/* Whether a lambda begins with the '[' at i; and the '{' of its body, or i if it has none. */
bool token_is_lambda(const struct code *code, uint32_t i);
uint32_t token_lambda_body(const struct code *code, uint32_t i);

#endif
