/*
 * owner_reads.c - see player.h: owner reads. A copy to the host, or a result that a library gives it, brings what the
 * rank has whose step has written the bytes last; the others do not make the copy, and wait for that rank's bytes, in
 * pages that all ranks of a supervisor share (read_slots.h).
 *
 * All ranks see the same reads in the same order, and number the exchanges alike. Which step has written what a copy of
 * the period brings stands in the plan; the owner gives it away after the operation that wrote it, if the copy has
 * brought the same bytes of memory in the period before, else after the copy. What the host reads between periods is
 * looked up in the plan's list of what operations write. So is a number in managed memory that nothing on the device
 * reads: it is exchanged when the host has waited, before it can look.
 *
 * An exchange waits for nothing but for ranks that come to the same place of the program: none holds a lock then, and
 * no collective is under way (follow.c). So ranks of several supervisors add the owner's bytes to zeros, by DDP_REDUCE.
 */
#include "base/message.h"
#include "tools/plan/trainer/player.h"
#include "tools/plan/trainer/read_slots.h"

static bool are_exchanged; /* what owners read: else no slots are there */
static uint32_t rank, world;
static bool is_apart; /* there are ranks of other supervisors, on this machine or another: they have other pages */
static bool ranks_have_noise;

/* With `following` held: */
static uint64_t next_exchange;
static uint64_t *written_at; /* [operation_count]: the last period that has made it, + 1 */
static uint64_t *shown_at;   /* [written_count]: the same, that the host has seen */

/* Of a copy of the period. */
static struct read {
    uint32_t index; /* in the plan */
    uint32_t alloc; /* what it has brought last */
    uint64_t offset, bytes;
    bool is_known;
    bool is_given; /* exchange `given` brings it in period `given_for` */
    uint64_t given, given_for;
} * reads;
static uint32_t read_count;

/* This thread's operation. */
enum { GIVES_AT_MOST = 8 };
#define SEVERAL UINT64_MAX
static __thread struct reading {
    bool is_any, is_given;
    bool is_unsure; /* steps that were not recorded may have written it: of some rank, that none knows */
    bool differs;   /* the rank's own bytes from those that were brought */
    uint32_t owner;
    uint64_t exchange, period;
    const struct operand *to;
    uint32_t give_count;
    struct give {
        uint64_t exchange;
        CUdeviceptr from;
        size_t bytes;
    } gives[GIVES_AT_MOST]; /* after it */
} now __attribute__((tls_model("initial-exec")));
static __thread bool launches __attribute__((tls_model("initial-exec")));

/* ---- what an operation brings to the host ---- */

/* The rank whose step a period is. */
static uint32_t
owner_of(uint64_t period)
{
    return player_is_by_state() ? state_owner(period) : (uint32_t)(period % world);
}

static bool
is_exchanged(const struct play_operation *of)
{
    return of->reads == PLAY_READS_STEP || of->reads == PLAY_READS_FIRST;
}

/* Owner reads do not bring it. */
static void __attribute__((noreturn)) refuse(const struct operation *operation, const char *what)
{
    scout_stop("in batch %llu of the program, %s %s; add --reads own: each rank then reads its own value",
               (unsigned long long)now.period + 1, operation->name, what);
}

/* For a read between steps that one rank alone could answer: refuses the plan in a proof; in a training rank 0
 * warns, and all ranks read its value. */
static void
refuse_or_warn(const struct operation *operation, const char *what)
{
    if (player.play.plan.data != PLAY_TRAINING)
        refuse(operation, what);
    if (rank == 0)
        message_warning(
            "own_reads",
            "plan: in batch %llu of the program, %s %s: it returns rank 0's value, and figures computed from it "
            "are not those of one process",
            (unsigned long long)now.period + 1, operation->name, what);
}

static bool
is_copy(const struct operation *operation)
{
    return begins_with(operation->name, "cuMemcpy");
}

static bool
is_target(const struct operation *operation, const struct operand *operand)
{
    return is_copy(operation) ? operand_is_target(operand) : operand->access == ACCESS_WRITE;
}

/* Where it writes memory of the host. NULL: nowhere that is seen. */
static const struct operand *
target_of(const struct operation *operation)
{
    const struct operand *found = NULL;
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (!is_target(operation, operand) || !allocations_is_host(operand->address))
            continue;
        if (found != NULL || operand->pieces.outer_count > 1)
            refuse(operation, "brings several ranges to the host at once");
        found = operand;
    }
    return found;
}

/* What a copy reads; NULL: several places. */
static const struct operand *
source_of(const struct operation *operation)
{
    const struct operand *found = NULL;
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        if (is_target(operation, &operation->operands[i]))
            continue;
        if (found != NULL)
            return NULL;
        found = &operation->operands[i];
    }
    return found;
}

static size_t
bytes_brought(const struct operand *to)
{
    return operand_rows(to) * operand_row_bytes(to);
}

/* How many exchanges it takes. */
static uint64_t
exchanges_of(const struct operand *to)
{
    return (bytes_brought(to) + PLAY_SLOT_BYTES - 1) / PLAY_SLOT_BYTES;
}

/* ---- of the period ---- */

/* No copy brings what was given away for one. */
static void
pass(struct read *read)
{
    const struct play_operation *of = &player.play.operations[read->index];
    if (read->is_given && owner_of(read->given_for - of->back) != rank)
        slots_take(read->given);
    read->is_given = false;
}

/* The operation writes what later copies bring. */
static void
give_later(uint32_t index, uint64_t period)
{
    FOR_EACH_MUTABLE(read, reads, read_count) {
        const struct play_operation *of = &player.play.operations[read->index];
        const struct allocation *allocation = of->writer == index && of->reads == PLAY_READS_STEP && read->is_known
                                                  ? allocations_numbered(read->alloc)
                                                  : NULL;
        if (of->writer == index)
            pass(read);
        if (allocation == NULL || is_apart || read->bytes > PLAY_SLOT_BYTES || now.give_count == GIVES_AT_MOST)
            continue;
        read->is_given = true;
        read->given = next_exchange++;
        read->given_for = period + of->back;
        ++now.give_count;
        now.gives[now.give_count - 1] =
            (struct give){read->given, allocation->address + read->offset, (size_t)read->bytes};
    }
    if (owner_of(period) != rank)
        now.give_count = 0;
}

/* Begins a read of the host: whether the same bytes were given ahead for this period, else they come from the owner
 * now. */
static void
begin_read(const struct operation *operation, struct read *read, uint64_t period)
{
    const struct operand *from = is_copy(operation) ? source_of(operation) : NULL;
    const struct allocation *allocation = from != NULL ? allocations_find(from->address) : NULL;
    struct read before = *read;
    read->is_known = allocation != NULL && operand_rows(from) == 1 && operand_rows(now.to) == 1;
    if (read->is_known) {
        read->alloc = allocation->number;
        read->offset = from->address - allocation->address;
        read->bytes = from->bytes;
    }
    now.is_given = before.is_given && before.given_for == period && read->is_known && before.alloc == read->alloc &&
                   before.offset == read->offset && before.bytes == read->bytes;
    if (!now.is_given)
        pass(read);
    now.exchange = before.given;
    read->is_given = false;
}

/* ---- between periods ---- */

/* The last period that has written bytes from `at` on, + 1; 0: none has; SEVERAL: each has written another part.
 * *end_p: how far that is so. */
static uint64_t
written_from(const struct allocation *allocation, uint64_t at, uint64_t *end_p)
{
    uint64_t newest = 0;
    FOR_EACH(written, player.play.written, player.play.plan.written_count) {
        uint64_t made = written_at[written->writer];
        if (written->bytes != allocation->bytes || written->ordinal != allocation->ordinal || written->hi <= at)
            continue;
        uint64_t limit = written->lo > at ? written->lo : written->hi;
        *end_p = limit < *end_p ? limit : *end_p;
        if (written->lo > at)
            continue;
        if (written->moves && made != 0)
            return SEVERAL;
        newest = made > newest ? made : newest;
    }
    return newest;
}

static uint64_t named_at;     /* periods that had begun when an operation between them was made, */
static uint64_t all_named_at; /* and when one might have written any memory */

/* Notes that an operation between periods names the allocation. False: it is of none. */
static bool
note_name(uint64_t address, uint64_t bytes)
{
    (void)bytes;
    struct allocation *allocation = allocations_known(address);
    if (allocation != NULL)
        allocation->named_between = named_at;
    return allocation != NULL;
}

/* An operation between periods may write all that it names, but for what a copy reads. */
static void
note_between(const struct operation *operation, uint64_t period)
{
    const struct kernel *kernel = operation->function != NULL ? kernels_find(operation->function) : NULL;
    named_at = period + 1;
    if (operation->opaque || operation->graph != NULL || (kernel != NULL && !kernel->known))
        all_named_at = named_at;
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (operand->pointer_count > 0)
            all_named_at = named_at;
        if (!is_copy(operation) || is_target(operation, operand))
            (void)note_name(operand->address, operand->bytes);
    }
    (void)player_any(operation, false, note_name);
}

/* What no step writes may be computed between steps from what one has left, as hits in its batch: the rank of the
 * newest step has it. If none has named it since then, all ranks show whether they have the same. */
static bool
find_newest(const struct allocation *allocation, uint64_t lo, uint64_t hi, uint32_t *owner_p)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < player.play.plan.operation_count; ++i) {
        bool is_of_step = player.play.operations[i].part != PLAY_BY_ALL; /* others may begin the next period */
        newest = is_of_step && written_at[i] > newest ? written_at[i] : newest;
    }
    /* The plan may have a class for these bytes by which they are the same on all ranks, or each rank's own. */
    if (newest == 0 || ANY(tensor, player.play.tensors, player.play.plan.tensor_count,
                           tensor->role != PLAY_UNREAD && tensor->bytes == allocation->bytes &&
                               tensor->ordinal == allocation->ordinal && tensor->lo < hi && lo < tensor->hi))
        return false;
    now.is_unsure = allocation->named_between < newest && all_named_at < newest;
    *owner_p = owner_of(newest - 1);
    return true;
}

/* Finds the rank whose step has written what the operation reads, in *owner_p. False: none is known, or several
 * have, which is refused or warned of. */
static bool
find_owner(const struct operation *operation, uint32_t *owner_p)
{
    bool found = false;
    const struct operand *source = source_of(operation);
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        const struct allocation *allocation = is_target(operation, operand) ? NULL : allocations_find(operand->address);
        uint64_t at = allocation != NULL ? operand->address - allocation->address : 0, hi = at + operand->bytes;
        for (uint64_t end; allocation != NULL && at < hi; at = end) {
            end = hi;
            uint64_t period = written_from(allocation, at, &end);
            if (period == SEVERAL) {
                refuse_or_warn(operation, "is not in the plan, and reads memory where each batch writes another part");
                return false;
            }
            if (period == 0)
                continue;
            uint32_t owner = owner_of(period - 1);
            if (found && owner != *owner_p) {
                refuse_or_warn(operation, "is not in the plan, and reads results of two batches at once");
                return false;
            }
            *owner_p = owner;
            found = true;
        }
    }
    const struct allocation *from = source != NULL ? allocations_find(source->address) : NULL;
    uint64_t lo = from != NULL ? source->address - from->address : 0;
    return found || (from != NULL && find_newest(from, lo, lo + source->bytes, owner_p));
}

/* ---- what the player calls ---- */

/* Whether the operation brings the host something that one rank, `now.owner`, has computed; `index`: its number in the
 * plan, or READS_BETWEEN. */
static bool
find_read(const struct operation *operation, uint32_t index, uint64_t period)
{
    if (index == READS_BETWEEN) {
        now.to = operation->function == NULL ? target_of(operation) : NULL;
        if (now.to == NULL || find_owner(operation, &now.owner))
            return now.to != NULL;
        now.owner = 0; /* of what differs by the noise of updates the host reads few bytes as rank 0 has them: what it
                          computes of them goes to later updates */
        return ranks_have_noise && launches && exchanges_of(now.to) == 1;
    }
    const struct play_operation *of = &player.play.operations[index];
    struct read *read = is_exchanged(of) && period >= of->back ? FIND(it, reads, read_count, it->index == index) : NULL;
    if (of->reads == PLAY_READS_MIXED)
        refuse(operation, "reads memory that several batches have written");
    if (read == NULL)
        return false;
    now.owner = of->reads == PLAY_READS_FIRST ? 0 : owner_of(period - of->back);
    now.to = target_of(operation);
    if (now.to == NULL)
        refuse(operation, "returns a result to host memory at an unknown address");
    begin_read(operation, read, period);
    return true;
}

void
reads_none(void)
{
    now.is_any = false;
    now.give_count = 0;
}

void
reads_begin(struct operation *operation, uint32_t index, uint64_t period)
{
    now = (struct reading){.period = period};
    if (!are_exchanged)
        return;
    launches = launches || operation->function != NULL;
    if (index != READS_BETWEEN) {
        written_at[index] = period + 1;
        give_later(index, period);
    } else {
        note_between(operation, period);
    }
    now.is_any = find_read(operation, index, period);
    if (!now.is_any)
        return;
    if (!launches)
        refuse(operation, "is made by a thread that launches nothing: the batch that it reads is not known");
    if (!now.is_given) {
        now.exchange = next_exchange;
        next_exchange += exchanges_of(now.to);
    }
    operation->skip = operation->skip || (now.owner != rank && is_copy(operation) && !now.is_unsure);
}

static void
bring(char *to, const char *from, size_t bytes)
{
    now.differs = now.differs || memcmp(to, from, bytes) != 0;
    memcpy(to, from, bytes);
}

/* Once on each machine. */
static void
say_unsure(const struct operation *operation)
{
    static const char what[] =
        "reads memory that no recorded step writes, and ranks have different values there: other "
        "steps have changed it, for example the first loss or the largest loss";
    if (player.play.plan.data != PLAY_TRAINING)
        refuse(operation, what);
    if (slots_is_first_unsure())
        message_warning(
            "unsure_reads",
            "plan: after batch %llu of the program, %s %s; it returns the value of rank %u, which one process may "
            "not have",
            (unsigned long long)now.period + 1, operation->name, what, now.owner);
}

/* Of the rows of the host's memory, `count` bytes from byte `at` on: to bytes in a row, or from there. */
static void
gather(char *bytes, size_t at, size_t count, bool is_back)
{
    const size_t row_bytes = operand_row_bytes(now.to);
    for (size_t end = at + count, piece; at < end; at += piece, bytes += piece) {
        size_t row = at / row_bytes, column = at % row_bytes;
        char *there = (char *)(uintptr_t)now.to->address + row * now.to->pieces.inner_stride + column;
        piece = row_bytes - column < end - at ? row_bytes - column : end - at;
        bring(is_back ? there : bytes, is_back ? bytes : there, piece);
    }
}

/* Between the host's memory and slots, one behind another. `gives`: to them. */
static void
exchange_slots(bool gives, const char *name)
{
    const struct slots_wait wait = {.owner = now.owner, .period = now.period, .name = gives ? NULL : name};
    uint64_t number = now.exchange;
    for (size_t at = 0, all = bytes_brought(now.to); at < all; at += PLAY_SLOT_BYTES, ++number) {
        slots_wait_until(gives ? slots_is_free : slots_is_filled, number, &wait);
        gather(slots_bytes(number), at, all - at < PLAY_SLOT_BYTES ? all - at : PLAY_SLOT_BYTES, !gives);
        (gives ? slots_fill : slots_take)(number);
    }
}

/* ---- between supervisors ---- */

/* All ranks come here, at the same place of the program. */
static void
exchange_apart(bool gives, const struct operation *operation)
{
    static const struct ddp_site site = {"what the host reads", "the plan", 0};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
    static CUdeviceptr words;
    static char *bytes;
    static size_t room;
    size_t all = bytes_brought(now.to), count = (all + 3) / 4;
    if (count == 0)
        return;
    pthread_mutex_lock(&lock);
    if (count * 4 > room) {
        room = count * 4;
        free(bytes);
        if (words != 0) {
            player.engine->before_release(words, 0);
            DRIVER(cuMemFree, words);
        }
        bytes = scout_zeroed(1, room);
        DRIVER(cuMemAlloc, &words, room);
        player.engine->allocated(&words, room, MEMORY_DEVICE);
    }
    memset(bytes, 0, count * 4);
    if (gives)
        gather(bytes, 0, all, false);
    DRIVER(cuMemcpyHtoDAsync, words, bytes, count * 4, operation->stream);
    player.engine->reduce((void *)(uintptr_t)words, count, DDP_UINT32, DDP_OP_SUM, operation->stream, &site);
    DRIVER(cuMemcpyDtoHAsync, bytes, words, count * 4, operation->stream);
    DRIVER(cuStreamSynchronize, operation->stream);
    if (!gives)
        gather(bytes, 0, all, true);
    pthread_mutex_unlock(&lock);
}

static void CUDA_CB
filled(void *number)
{
    slots_fill((uint64_t)(uintptr_t)number);
}

void
reads_end(const struct operation *operation)
{
    const struct slots_wait wait = {.owner = now.owner, .period = now.period};
    if (!are_exchanged)
        return;
    if (now.give_count > 0)
        slots_lock();
    FOR_EACH(give, now.gives, now.give_count) {
        slots_wait_until(slots_is_free, give->exchange, &wait);
        DRIVER(cuMemcpyDtoHAsync, slots_bytes(give->exchange), give->from, give->bytes, operation->stream);
        DRIVER(cuLaunchHostFunc, operation->stream, filled, (void *)(uintptr_t)give->exchange);
    }
    now.give_count = 0;
    if (!now.is_any)
        return;
    now.is_any = false;
    bool is_own = now.owner == rank;
    if (is_apart || !is_own || !now.is_given)
        DRIVER(cuStreamSynchronize, operation->stream);
    if (is_apart)
        exchange_apart(is_own, operation);
    else if (!is_own || !now.is_given)
        exchange_slots(is_own, operation->name);
    if (!is_own && now.is_unsure && now.differs)
        say_unsure(operation);
}

void
reads_waited(void)
{
    for (uint32_t i = 0; are_exchanged && launches && !player.is_alone && i < player.play.plan.written_count; ++i) {
        const struct play_written *written = &player.play.written[i];
        struct play_tensor place = {.bytes = written->bytes, .ordinal = written->ordinal};
        struct operand to = {.bytes = (size_t)(written->hi - written->lo)};
        if (!written->unread || to.bytes > PLAY_SLOT_BYTES)
            continue;
        player_lock();
        const struct allocation *allocation = player_allocation(&place);
        uint64_t made = written_at[written->writer];
        bool is_new = made > shown_at[i] && allocation != NULL && allocation->memory == SCOUT_MANAGED;
        if (is_new) {
            shown_at[i] = made;
            to.address = allocation->address + written->lo;
            now = (struct reading){
                .period = made - 1, .owner = owner_of(made - 1), .to = &to, .exchange = next_exchange++};
        }
        player_unlock();
        if (is_new && now.owner == rank) /* it may be another stream that was waited for */
            DRIVER(cuCtxSynchronize);
        if (is_new && is_apart)
            exchange_apart(now.owner == rank, &(struct operation){.name = "the host"});
        else if (is_new)
            exchange_slots(now.owner == rank, "the host");
    }
}

bool
reads_are_true(void)
{
    return are_exchanged;
}

void
reads_close(void)
{
    if (are_exchanged)
        slots_end(rank);
}

void
reads_open(const char *path)
{
    const struct play_plan *plan = &player.play.plan;
    const char *here = getenv(DDPRUN_ENV_STATUS_COUNT);
    bool by_turns = plan->data == PLAY_TURNS || plan->data == PLAY_TRAINING;
    rank = player.rank;
    world = (uint32_t)player.engine->world_size;
    if (!by_turns || plan->reads_own || plan->turns > 0 || world < 2)
        return;
    reads = scout_zeroed(plan->operation_count, sizeof(*reads));
    written_at = scout_zeroed(plan->operation_count, sizeof(*written_at));
    shown_at = scout_zeroed(plan->written_count, sizeof(*shown_at));
    for (uint32_t i = 0; i < plan->operation_count; ++i) {
        if (is_exchanged(&player.play.operations[i]))
            reads[read_count++].index = i;
    }
    for (uint32_t i = 0; i < plan->tensor_count && !player_is_by_state(); ++i) {
        uint32_t of = player.play.tensors[i].noise;
        ranks_have_noise = ranks_have_noise || (of > 0 && player.play.operations[of - 1].part != PLAY_BY_TURN);
    }
    slots_open(path, world);
    are_exchanged = true;
    is_apart = world > PLAY_READERS || (here != NULL && strtoul(here, NULL, 10) != world);
}
