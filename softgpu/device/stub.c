/*
 * stub.c - what a program compiled by softgpu-cc knows of itself: its kernels' stubs and names, its device variables.
 */
#include "softgpu/stub.h"
#include "softgpu/block.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Registered variables, newest first. Guarded by variable_lock. */
static struct softgpu_variable *variables;
static pthread_mutex_t variable_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- stubs ---- */

/* Stands in for whatever a stub takes on the stack. */
struct blank {
    char bytes[4096];
};

const struct softgpu_image *
softgpu_stub_image(const void *stub)
{
    /*
     * A stub does not look at its parameters under the probe, but its compiler may load them early. So it finds six
     * pointers to readable memory in registers, and zeros where the others would be.
     */
    static const struct blank blank;
    typedef void (*any_stub)(const void *, const void *, const void *, const void *, const void *, const void *,
                             struct blank);
    if (stub == NULL)
        return NULL;

    const struct softgpu_image *image = NULL;
    const struct softgpu_image **outer = softgpu_thread.probe;
    softgpu_thread.probe = &image;
    any_stub call;
    memcpy(&call, &stub, sizeof(call));
    call(&blank, &blank, &blank, &blank, &blank, &blank, blank);
    softgpu_thread.probe = outer;
    return image;
}

/* ---- names ---- */

/* Where the name ends: the "(" of the parameter list, which is the last "(" at the depth of the name itself. */
static size_t
name_length(const char *text)
{
    int angles = 0;
    for (size_t i = 0; text[i] != '\0'; ++i) {
        /* "(anonymous namespace)::k(...)" has a parenthesis that belongs to the name. */
        if (strncmp(text + i, "(anonymous namespace)", 21) == 0) {
            i += 20;
            continue;
        }
        if (text[i] == '<')
            ++angles;
        else if (text[i] == '>')
            --angles;
        else if (text[i] == '(' && angles == 0)
            return i;
    }
    return strlen(text);
}

/* "[with T = float; int N = 4]" (gcc) or "[T = float, N = 4]" (clang) -> "float, 4"; returns the end of what it wrote.
 */
static char *
write_arguments(char *out, const char *list)
{
    int depth = 0;
    bool value = false;
    for (const char *c = list; *c != '\0'; ++c) {
        if (depth == 0 && *c == ']')
            break;
        if (*c == '<' || *c == '(' || *c == '{' || *c == '[')
            ++depth;
        else if (*c == '>' || *c == ')' || *c == '}' || *c == ']')
            --depth;
        if (depth == 0 && (*c == ';' || *c == ',')) {
            *out++ = ',';
            *out++ = ' ';
            value = false;
        } else if (value) {
            *out++ = *c;
        } else if (*c == '=') {
            value = true;
            if (c[1] == ' ')
                ++c;
        }
    }
    return out;
}

const char *
softgpu_kernel_name(const char *pretty_function)
{
    const char *text = pretty_function;
    static const char *const before[] = {"static ", "void "};
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); ++i) {
        if (strncmp(text, before[i], strlen(before[i])) == 0)
            text += strlen(before[i]);
    }
    const size_t length = name_length(text);
    const char *list = strstr(text + length, " [");

    char *name = malloc(2 * strlen(pretty_function) + 3);
    if (name == NULL)
        return "kernel"; /* only messages show it */
    memcpy(name, text, length);
    char *end = name + length;
    if (list != NULL) {
        list += 2;
        if (strncmp(list, "with ", 5) == 0)
            list += 5;
        *end++ = '<';
        end = write_arguments(end, list);
        *end++ = '>';
    }
    *end = '\0';
    return name;
}

/* ---- variables ---- */

void
softgpu_variable_add(struct softgpu_variable *variable)
{
    pthread_mutex_lock(&variable_lock);
    variable->next = variables;
    variables = variable;
    pthread_mutex_unlock(&variable_lock);
}

void
softgpu_variable_remove(struct softgpu_variable *variable)
{
    pthread_mutex_lock(&variable_lock);
    for (struct softgpu_variable **link = &variables; *link != NULL; link = &(*link)->next) {
        if (*link == variable) {
            *link = variable->next;
            break;
        }
    }
    pthread_mutex_unlock(&variable_lock);
}

bool
softgpu_variable_find(const void *address, struct softgpu_variable *variable_p)
{
    bool found = false;
    pthread_mutex_lock(&variable_lock);
    for (const struct softgpu_variable *v = variables; v != NULL && !found; v = v->next) {
        if ((const char *)address >= (const char *)v->address &&
            (const char *)address < (const char *)v->address + v->bytes) {
            *variable_p = *v;
            found = true;
        }
    }
    pthread_mutex_unlock(&variable_lock);
    return found;
}

bool
softgpu_variable_at(size_t position, struct softgpu_variable *variable_p)
{
    pthread_mutex_lock(&variable_lock);
    const struct softgpu_variable *v = variables;
    for (; v != NULL && position > 0; --position)
        v = v->next;
    if (v != NULL)
        *variable_p = *v;
    pthread_mutex_unlock(&variable_lock);
    return v != NULL;
}
