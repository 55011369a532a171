/*
 * lines.h - from what was found to the lines that annotate a program, each with its place in the source. What a part
 * needs stands above it.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_LINES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_LINES_H

#include "softgpu/text/statements.h"
#include "tools/common/owned.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/rules.h"
#include "tools/scout/format/log.h"

#include <ctype.h>
#include <stdio.h>

/*
 * ---- site.c: where in the source a call of a scouted program stands.
 *
 * By debug information (libdw), where the build has libdw and the object has debug information; else the function, if
 * its symbol is there; else object and offset.
 */
struct site_place {
    char file[256];    /* "" if it is not known */
    uint32_t object;   /* of the log: the program, or a library */
    int line, column;  /* column: 0 if it is not known */
    char function[96]; /* "" if it is not known */
    char text[384];    /* "train.cu:31", "main in train", "train+0x1234" */
};

/* Objects that are open; one for each log. */
struct sites;

struct sites *sites_open(const struct scout_log *log);
void sites_close(struct sites *sites);

/* The innermost frame of a call site that is the program's own: no stub that a compiler made. False: nothing is known
 * of it, and text is "?". */
bool sites_find(struct sites *sites, uint32_t site, struct site_place *place);

/* As sites_find(), with the line that calls it where that is known: "model.c:25 from train.c:80". Returns `text`. */
const char *sites_text(struct sites *sites, uint32_t site, char *text, size_t room);

enum { SITE_FRAMES_AT_MOST = 24 };
/* The frames of the program's own sources, innermost first, inlined calls among them: no stub, no header of a toolkit
 * or of the system, nothing without a source line. *count_p: how many. Valid until sites_close(). */
const struct site_place *sites_frames(struct sites *sites, uint32_t site, uint32_t *count_p);

/* The program or the library that was compiled from a source file, as far as frames were looked up; NULL: not known. */
const char *sites_object(const struct sites *sites, const char *file);

/* A text for users with what its numbers mean: after the first mention of each allocation of the log, a3 or a3[0:64],
 * its variable, its size, where the program made it, and the last kernel that was seen to write it, as far as they are
 * known: "a3[0:64] (weights, 4096 bytes, allocated at train.cu:41, written by sgd)". free() releases it. */
char *sites_explain(const struct scout_log *log, const char *text);

/*
 * ---- source.c: the statements of a source file of C, C++ or CUDA, as far as lines can be put between them.
 *
 * By softgpu/text, which is no compiler. What cannot be followed has no statement, and no line is put there.
 */
/* A statement, or a block of them. */
struct source_node {
    const struct source *source;
    const struct source_node *parent; /* NULL: the file */
    struct source_node *next;         /* in the order of their begins: parents come before their children */
    size_t begin, end;                /* in the text */
    struct token_range tokens;        /* of source->code */
    bool is_block;
    bool is_loop; /* for, while, do */
};

struct source {
    char *path;
    char *text;
    struct code code;
    struct statements statements;
    struct source_node *nodes;       /* [statements.count]: node i is statement i */
    const struct source_node *first; /* NULL: the file has none */
};

/* Nodes from this one on; and those inside a node. */
#define FOR_EACH_NODE(node, from) for (const struct source_node *node = (from); node != NULL; node = node->next)
#define FOR_EACH_INSIDE(node, around)                                                                  \
    for (const struct source_node *node = (around)->next; node != NULL && node->begin < (around)->end; \
         node = node->next)

/* The files that were read; zeroed: none. */
struct sources {
    struct source **files;
    uint32_t count;
};

/* NULL: it cannot be read. Valid until sources_close(). */
const struct source *sources_open(struct sources *sources, const char *path);
void sources_close(struct sources *sources);

/* The innermost statement of a line; of several, the one around the column, or the first launch of a kernel, if the
 * column is there or behind it. NULL: which one is not known. */
const struct source_node *source_statement(const struct source *source, int line, int column);
/* Where that is not known, and of launches: the one with the only call of a function whose name begins so. */
const struct source_node *source_statement_calling(const struct source *source, int line, int column,
                                                   const char *callee);
/* The innermost one around a place of the text; NULL. */
const struct source_node *source_statement_at(const struct source *source, size_t at);
/* The innermost one around a token; NULL. */
const struct source_node *source_statement_of(const struct source *source, uint32_t token);
/* The tokens of a statement in front of the statements inside it. */
struct token_range source_own(const struct source_node *node);
/* The number of the line that `at` stands in, from 1. */
int source_line(const struct source *source, size_t at);
/* The place of a line's column, both from 1. */
size_t source_place(const struct source *source, int line, int column);
/* Of node `inner`: the outermost node around it in the innermost block that holds `other`, too. NULL: no block does. */
const struct source_node *source_beside(const struct source_node *inner, const struct source_node *other);
/* The statement that is the function around a node: its header has parameters, its block is no class's. */
const struct source_node *source_function(const struct source_node *node);
/* The block among a statement's children; NULL. */
const struct source_node *source_block(const struct source_node *node);
/* Whether a statement, but for those inside it, declares a name. */
bool source_declares(const struct source_node *node, const char *name, size_t length);
/* Whether a line can be put in front of a statement: it begins its line. */
bool source_begins_line(const struct source_node *node);

/*
 * ---- lift.c: how memory is called in the functions around the call that allocates or copies it.
 *
 * From `cudaMalloc(&memory, count * sizeof(float))` in a helper, `tensor->value = allocate(count)` in its caller, and
 * `tensor_create(layer->weights, n)` in the next comes `layer->weights->value`, with `n * sizeof(float)` bytes: a
 * parameter becomes the argument, a result what it is assigned to, a member that of the object. By the source's text:
 * what cannot be followed has no name.
 */
enum { LIFT_BYTES = 256 };

/* A part of a source's text. */
struct span {
    size_t begin, end;
};

/* Expressions, "" what is not known. Of a copy the memory is where it goes to. */
struct lifted {
    char memory[LIFT_BYTES], bytes[LIFT_BYTES];
    bool is_fixed; /* bytes is not said, but is a parameter of a template */
    bool is_owned; /* a function has made a smart pointer of the memory */
};

/* As frame `depth` of a call's stack says it. False: not known there, not even the bytes. */
bool lift(struct sources *sources, const struct site_place *frames, uint32_t depth, struct lifted *lifted)
    __attribute__((warn_unused_result));

/* The frame that is missing between a call of `callee`, or, NULL, of CUDA's for memory, and the frame `from`: of a
 * function that ends with this call, by a jump. False: none is. */
bool lift_find_tail(struct sources *sources, const char *callee, const struct site_place *from, struct site_place *tail)
    __attribute__((warn_unused_result));

/* What the launch, the copy or the call of cuBLAS in a statement gets as argument `slot`, from 0. Of "l == 0 ? x : z"
 * that is x, and *is_choice becomes true: it holds where the loop or the condition begins. False: not known, or not to
 * be said twice. */
bool lift_argument(const struct source_node *node, uint32_t slot, char to[LIFT_BYTES], bool *is_choice)
    __attribute__((warn_unused_result));

/* Says an expression of the function of frame `depth - 1` as frame `depth`, its caller, has it. False: not known. */
bool lift_up(struct sources *sources, const struct site_place *frames, uint32_t depth, char expression[LIFT_BYTES])
    __attribute__((warn_unused_result));

/* Whether a part of a source's text may give a name of an expression another value. */
bool lift_changes(const struct source *source, struct span part, const struct lifted *lifted);

/* Takes the brackets away that are around all of an expression, in its own memory. */
char *lift_bare(char *expression);

/* ---- insert.c: the lines that annotate a program, each with the place in its source ---- */
struct insertion {
    char *file;
    int line;        /* the text goes in front of this line, */
    size_t within;   /* or in this place of the line, from 1; 0: in front */
    char indent[64]; /* in front of each line of the text */
    char *text;      /* without the last line's end */
    uint32_t number; /* of those that were added */
};

/* What ranks take turns at: a batch, or the part of it that ends with the update of one group. */
struct region {
    uint32_t group;       /* of the finding */
    uint32_t begin, last; /* operations of the log: its first, and its update's last */
};

struct insertions {
    struct insertion *items; /* by file and line; those of one line in their order */
    uint32_t count;
    char **names;           /* [tensor_count]: of its memory in the source; NULL: it has no line */
    bool *placed_steps;     /* [group_count] */
    uint32_t *group_of;     /* [group_count]: the number that lines give a group of the finding */
    uint32_t groups;        /* of lines */
    uint32_t forgotten;     /* DDP_FORGET comes before it is freed: one annotation is of several sizes; SCOUT_NONE */
    const char *unturned;   /* why regions have no lines; NULL: they have */
    struct region *regions; /* one for each group, in the order of their updates; none: ranks cannot take turns */
    uint32_t region_count;
    bool settles; /* with them no suspect is in question */
    char **notes; /* "note: ...", "by hand: ...": on the host's part */
    uint32_t note_count;
};

/* Looks the places up in debug information and in the sources, as far as there are any. insertions_free() releases it.
 */
void insertions_find(struct sites *sites, const struct scout_log *log, const struct scout_finding *finding,
                     struct insertions *insertions);
void insertions_free(struct insertions *insertions, uint32_t tensors);
/* Whether a tensor has an annotation of its own, where its memory has a name. */
bool insertions_have(const struct scout_log *log, const struct scout_finding *finding,
                     const struct scout_tensor *tensor);
/* Whether it needs one: state that is computed from averaged gradients is the same on all ranks without. */
bool insertions_need(const struct scout_log *log, const struct scout_finding *finding,
                     const struct scout_tensor *tensor);

/* ---- say_lines.c: what the lines are, for people ---- */
/* What the program with these lines will be. */
void lines_print_promise(FILE *out, const struct insertions *insertions);
/* Prints the tensors by groups, how many lines are to be added to which files, and what is left to be done by hand,
 * with the reason. `patch`: takes the lines as a diff; *fault_p: why it cannot be applied, for free(), or
 * NULL. */
void lines_print(FILE *out, FILE *patch, const struct scout_log *log, const struct scout_finding *finding,
                 struct insertions *insertions, struct sites *sites, char **fault_p);

/*
 * ---- patch.c: the lines as a unified diff for `patch -p0` and `git apply`, with the sources' line ends and byte-order
 * marks ----
 *
 * A summary, "14 in net.cu, 3 in main.cu", goes to `summary`. *fault_p: the first reason why the diff cannot be
 * applied, for free(), or NULL: files have changed since the program was built, or are not below the current folder.
 */
void patch_put(FILE *out, FILE *summary, const struct insertions *insertions, struct sites *sites, char **fault_p);

/* ---- annotated.c: the annotations of a program, held against what was found ---- */
/* One line for each that is missing or superfluous; one line if there is none. */
void annotated_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites);

/* Of a program whose steps are equal on all ranks, what these leave open: of a parameter that is annotated in part, the
 * rest; `by_gradients`: also parameters without an annotation, where gradients of more elements are annotated, and a
 * step after an operation that trains with gradients. */
void annotated_print_open(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
                          struct sites *sites, bool by_gradients);

/* Where a region stands in the source: two statements of one block. */
struct borders {
    const struct source_node *front;  /* DDP_TURN_BEGIN stands before it */
    const struct source_node *back;   /* the region's last statement */
    const struct source_node *update; /* inside it: what leads to the last update */
};

/* ---- spots.c, for insert.c and regions.c: where a line can stand, and what the search for lines knows ---- */
struct search {
    struct sites *sites;
    const struct scout_log *log;
    const struct scout_op *ops; /* the log's */
    const struct scout_finding *finding;
    uint32_t first, period, end; /* the finding's */
    struct sources sources;
    struct insertions *to;
    uint32_t *memory_of;     /* of each allocation */
    uint32_t start;          /* operations before the first step that is like all others */
    uint32_t begun;          /* before the first step, which may allocate what others find */
    bool *counted;           /* [alloc_count]: it has no name, and is called by its number: */
    uint32_t *number;        /* [alloc_count]: in ddp_made; SCOUT_NONE */
    struct borders *borders; /* [region_count], of regions that have lines */
};

struct stack {
    const struct site_place *frames;
    uint32_t count;
};

/* Where lines go, and between what: after a statement that is the whole body of a loop they need braces. */
struct spot {
    const struct source_node *node;
    size_t behind; /* 0: in front of the node; else behind this place */
    bool needs_braces;
    char name[LIFT_BYTES]; /* of the memory that the line is about */
};

/* The frames of a call site; of an operation's. */
struct stack spot_stack(const struct search *search, uint32_t site);
struct stack spot_stack_of(const struct search *search, uint32_t op);
/* The frames of two stacks that are calls of one function: *a_p, *b_p. Inside them the stacks have nothing in common.
 * False: the stacks have no function in common, or are one. */
bool spot_find_parting(struct stack a, struct stack b, uint32_t *a_p, uint32_t *b_p);
/* The frames of an operation's call, and those that a function's last call leaves out. Returns how many. */
uint32_t spot_fill_stack(struct search *search, uint32_t op, struct site_place frames[SITE_FRAMES_AT_MOST]);
/* Whether two stacks have the same frames from the call outwards to frame `depth`. */
bool spot_is_same_chain(struct stack a, struct stack b, uint32_t depth);
/* Whether a whole line can be put there. */
bool spot_has_line(const struct spot *spot);
/* Whether a statement there is reached. */
bool spot_is_usable(const struct spot *spot);
/* Whether a statement of the node around `from` returns after it, or goes elsewhere, and no loop repeats `from`. */
bool spot_leaves(const struct source_node *from, const struct source_node *around);
/* After the last statement of the line that begins after a statement, in the same block. */
size_t spot_end_of_line(const struct source_node *node);
/* Adds text at a spot, with the header that it needs. */
void spot_add_text(struct search *search, const struct spot *spot, const char *text);
/* Adds the line of a group's step at a spot. */
void spot_add_step(struct search *search, const struct spot *spot, uint32_t group);
/* Adds text in front of a statement, on its line. */
void spot_add_within(struct search *search, const struct spot *spot, const char *text);
/* Adds text before and after an expression, once. */
void spot_wrap(struct search *search, const struct source *source, struct span part, const char *before,
               const char *after);
/* The statement of frame `depth`; NULL: not known. */
const struct source_node *spot_node(struct search *search, const struct site_place *frames, uint32_t depth);
/* Behind the statement of a frame; in a function's header, at the begin of its body. */
bool spot_find_behind(struct search *search, const struct site_place *place, struct spot *spot);
/* Behind the statement `set`, for what is said at the statement `made` of the same block. */
bool spot_find_behind_both(struct search *search, const struct site_place *made, const struct site_place *set,
                           struct spot *spot, struct lifted *said);

/* Adds a line for people; the text is malloc'ed, and the list's from then on. */
void notes_add(struct search *search, char *text);

/* ---- regions.c: where ranks take turns ---- */
/* Finds the regions and their borders, and adds their lines: all, or none, and the reason. */
void regions_place(struct search *search);

/* ---- hosts.c: what the host does with results ---- */
/* Adds notes: one sentence each, with its places, on figures, printing, files, and the end of the loop. */
void hosts_note(struct search *search);

/* ---- decisions.c: what the host computes from a rank's own results, and the device gets ---- */
/* Adds what is left by hand where a launch gets it, or the host launches or saves by it. `loop`: around the batches. */
void decisions_note(struct search *search, const struct source_node *loop, const struct region *region,
                    const struct borders *borders);

/* ---- corrections.c: the number of an update, where a program has that of a batch ---- */
/* Changes the counts of batches that the update of an operation uses as those of updates. False: none is known. */
bool corrections_place(struct search *search, uint32_t op, const struct borders *borders);
/* The argument of a launch that is a whole number and grows by one in each batch; -1: none does. */
int corrections_slot(const struct search *search, uint32_t op);

/* ---- counters.c: what the host counts for updates ---- */
/* Adds `if (DDP_TURN_UPDATES())` in front of statements that count updates; where there is none, corrections.c's
 * changes; else a note, or what is left by hand. */
void counters_place(struct search *search);

/* ---- tensor_line.c, for insert.c, uses.c and made.c: the line of a tensor ---- */
enum { LINE_BYTES = 1024 };
/* The line of a tensor in this memory, with so many elements; or, `said`, as its allocation is said. `at`: where the
 * line stands; NULL: in no template. False: no room. */
bool line_write(const struct search *search, const struct scout_tensor *tensor, const char *memory, const char *count,
                const struct source_node *at, char text[LINE_BYTES]) __attribute__((warn_unused_result));
bool line_write_said(const struct search *search, const struct scout_tensor *tensor, const struct lifted *said,
                     const struct source_node *at, char text[LINE_BYTES]) __attribute__((warn_unused_result));
/* A gradient, and all that lies in its place at other times: one annotation is of all of it. */
struct scout_tensor line_widen(const struct search *search, const struct scout_tensor *tensor);
/* The last operation before the first step that sets the tensor; SCOUT_NONE: none, or it needs none. */
uint32_t line_setting_of(const struct search *search, const struct scout_tensor *tensor);
/* Whether copies on the device carry it from batch to batch, as a hidden state that sequences go on with: nothing of it
 * is trained, although its change is averaged as that of a parameter without a gradient. */
bool line_is_carried(const struct scout_log *log, const struct scout_tensor *tensor);
/* Whether two gradients lie in one place, at different times. */
bool line_shares_place(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b);

/* ---- uses.c: memory that is named where a launch gets it ---- */
/* Adds a line for each tensor that needs one, has none so far, and is named by a launch before DDP_STEP. */
void uses_place(struct search *search);

/* ---- made.c: memory that is called by the number of its allocation ---- */
/* Adds a line for each tensor that needs one and has none so far, as far as its allocation can be counted. */
void made_place(struct search *search);

#endif
