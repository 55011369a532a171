/*
 * test_peer_bytes.c - what supervisors send each other comes out as it went in; whatever else comes (cut short, too
 * long, changed, of another secret) is refused and changes nothing.
 */
#include "base/protocol.h"
#include "launcher/cluster/addresses.h"
#include "launcher/cluster/handshake.h"
#include "launcher/cluster/peer_bytes.h"
#include "launcher/common/network.h"
#include "launcher/options/options.h"

#include "tests/lib/test.h"

enum { CHANGES = 20000 };

static struct handshake
a_handshake(void)
{
    struct handshake handshake = {.pid = 4711, .host = "node7", .host_id = "boot 1", .port = 40123, .exit_code = 3};
    struct options options = {.job = {.bucket_bytes = 10 << 20, .overlap = true}, .timeout_s = 600};
    terms_write(&options, true, handshake.terms, sizeof(handshake.terms));
    handshake_take_command(&handshake, (char *[]){"train", "--seed", "5", NULL});
    snprintf(handshake.error, sizeof(handshake.error), "there is no program");
    memset(handshake.secret, 0x5a, sizeof(handshake.secret));
    handshake.addresses.count = 2;
    handshake.addresses.items[0] = (struct host_address){.family = 4, .bytes = {10, 1, 2, 3}};
    handshake.addresses.items[1] = (struct host_address){.family = 6, .bytes = {0xfd, [15] = 9}};
    return handshake;
}

TEST(a_handshake_comes_out_as_it_went_in)
{
    unsigned char bytes[HANDSHAKE_BYTES_AT_MOST];
    struct handshake before = a_handshake(), after = {0};
    size_t count = handshake_encode(&before, bytes);
    ck_assert(handshake_decode(bytes, count, &after));
    ck_assert_str_eq(after.command, "train --seed 5");
    ck_assert_mem_eq(&after, &before, sizeof(after));
}

/* The largest there can be has room. */
TEST(the_largest_handshake_fits)
{
    unsigned char bytes[HANDSHAKE_BYTES_AT_MOST];
    struct handshake handshake = a_handshake(), after;
    memset(handshake.host, 'h', sizeof(handshake.host) - 1);
    memset(handshake.host_id, 'i', sizeof(handshake.host_id) - 1);
    memset(handshake.terms, 't', sizeof(handshake.terms) - 1);
    memset(handshake.command, 'c', sizeof(handshake.command) - 1);
    memset(handshake.error, 'p', sizeof(handshake.error) - 1);
    handshake.addresses.count = ADDRESSES_AT_MOST;
    for (int i = 0; i < ADDRESSES_AT_MOST; ++i)
        handshake.addresses.items[i].family = 6;
    ck_assert(handshake_decode(bytes, handshake_encode(&handshake, bytes), &after));
    ck_assert_int_eq(after.addresses.count, ADDRESSES_AT_MOST);
}

TEST(a_handshake_cut_short_or_changed_is_refused_or_bounded)
{
    unsigned char bytes[HANDSHAKE_BYTES_AT_MOST], changed[HANDSHAKE_BYTES_AT_MOST];
    struct handshake handshake = a_handshake(), after;
    size_t count = handshake_encode(&handshake, bytes);
    unsigned seed = 1;
    for (size_t i = 0; i < count; ++i)
        ck_assert(!handshake_decode(bytes, i, &after));
    for (int i = 0; i < CHANGES; ++i) {
        memcpy(changed, bytes, count);
        for (int j = 0; j < 1 + i % 3; ++j)
            changed[(size_t)rand_r(&seed) % count] = (unsigned char)rand_r(&seed);
        if (!handshake_decode(changed, count, &after))
            continue;
        ck_assert_uint_lt(strlen(after.host), sizeof(after.host));
        ck_assert_uint_lt(strlen(after.terms), sizeof(after.terms));
        ck_assert_int_le(after.addresses.count, ADDRESSES_AT_MOST);
    }
}

TEST(different_terms_are_named_with_both_ranks)
{
    struct error error = {0};
    struct handshake handshakes[3] = {a_handshake(), a_handshake(), a_handshake()};
    struct options other = {.job = {.bucket_bytes = 11 << 20, .overlap = true}, .timeout_s = 600};
    for (int i = 0; i < 3; ++i)
        handshakes[i].exit_code = 0;
    ck_assert(handshake_agree(handshakes, 3, &error));
    terms_write(&other, true, handshakes[2].terms, sizeof(handshakes[2].terms));
    snprintf(handshakes[2].host, sizeof(handshakes[2].host), "node9");
    ck_assert(!handshake_agree(handshakes, 3, &error));
    ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
    ck_assert_says(error.text, "ranks 0 (host node7) and 2 (host node9)", "--bucket-mb 10 and --bucket-mb 11");
    other.job.bucket_bytes = 10 << 20;
    other.job.reduction = DDPRUN_REDUCE_SUM;
    terms_write(&other, true, handshakes[2].terms, sizeof(handshakes[2].terms));
    ck_assert(!handshake_agree(handshakes, 3, &error));
    ck_assert_says(error.text, "--reduce mean and --reduce sum");
}

TEST(commands_are_compared_word_by_word)
{
    static struct handshake handshakes[3];
    char text[2 * HANDSHAKE_COMMAND_BYTES], longest[4000];
    char *same[] = {"train", "--seed", "5", NULL}, *joined[] = {"train", "--seed 5", NULL};
    char *cut[] = {"train", longest, NULL};
    memset(handshakes, 0, sizeof(handshakes));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (int i = 0; i < 3; ++i)
        handshake_take_command(&handshakes[i], same);
    ck_assert_int_eq(handshake_find_other_command(handshakes, 3, text), 0);
    memset(&handshakes[2], 0, sizeof(handshakes[2]));
    handshake_take_command(&handshakes[2], joined);
    ck_assert_int_eq(handshake_find_other_command(handshakes, 3, text), 2);
    ck_assert_str_eq(text, "\n  rank 0: train --seed 5\n  rank 2: train --seed 5");
    for (int i = 1; i < 3; ++i) { /* behind what is shown */
        memset(&handshakes[i], 0, sizeof(handshakes[i]));
        longest[sizeof(longest) - 2] = (char)('0' + i);
        handshake_take_command(&handshakes[i], cut);
    }
    ck_assert_str_eq(handshakes[1].command, handshakes[2].command);
    ck_assert_int_eq(handshake_find_other_command(handshakes + 1, 2, text), 1);
}

TEST(an_error_of_one_names_its_host_an_error_of_all_does_not)
{
    struct error error = {0};
    struct handshake handshakes[2] = {a_handshake(), a_handshake()};
    ck_assert(!handshake_agree(handshakes, 2, &error));
    ck_assert_str_eq(error.text, "there is no program");
    ck_assert_int_eq(error.exit_code, 3);
    handshakes[0].exit_code = 0;
    ck_assert(!handshake_agree(handshakes, 2, &error));
    ck_assert_str_eq(error.text, "rank 1 (host node7): there is no program");
}

static struct rank_view
a_view(void)
{
    struct rank_view view = {.stage = RANK_STAGE_TRAINING,
                             .step = 1ull << 40,
                             .exposed_bound_ns = UINT64_MAX,
                             .timed_ns = 5,
                             .sums = true,
                             .ended = true,
                             .signal = 11,
                             .left_pid = -3,
                             .connected = true};
    snprintf(view.failure, sizeof(view.failure), "the reason\n  details");
    snprintf(view.last_line, sizeof(view.last_line), "no room");
    for (int i = 0; i < WARNINGS_AT_MOST; i += WARNINGS_AT_MOST - 1) {
        struct warning *warning = &view.warnings.all[i];
        warning->count = 3;
        warning->step = 1ull << 40;
        snprintf(warning->key, sizeof(warning->key), "key %d", i);
        memset(warning->text, 'x', sizeof(warning->text) - 1);
    }
    return view;
}

TEST(a_view_comes_out_as_it_went_in)
{
    unsigned char bytes[RANK_VIEW_BYTES_AT_MOST];
    struct rank_view before = a_view(), after = {.order = 7, .left_early = true};
    ck_assert(rank_view_decode(bytes, rank_view_encode(&before, bytes), &after));
    ck_assert_uint_eq(after.stage, RANK_STAGE_TRAINING);
    ck_assert_uint_eq(after.step, 1ull << 40);
    ck_assert_uint_eq(after.exposed_bound_ns, UINT64_MAX);
    ck_assert_uint_eq(after.timed_ns, 5);
    ck_assert(after.sums && after.ended && after.connected);
    ck_assert_int_eq(after.signal, 11);
    ck_assert_int_eq(after.left_pid, -3);
    ck_assert_str_eq(after.failure, before.failure);
    ck_assert_str_eq(after.last_line, before.last_line);
    ck_assert_uint_eq(after.warnings.all[1].count, 3); /* without the gaps between them */
    ck_assert_uint_eq(after.warnings.all[1].step, 1ull << 40);
    ck_assert_str_eq(after.warnings.all[1].key, before.warnings.all[WARNINGS_AT_MOST - 1].key);
    ck_assert_str_eq(after.warnings.all[1].text, before.warnings.all[WARNINGS_AT_MOST - 1].text);
    ck_assert_uint_eq(after.warnings.all[2].count, 0);
    ck_assert_int_eq(after.order, 7); /* supervisor 0's own */
    ck_assert(after.left_early);
}

TEST(a_view_cut_short_or_changed_is_refused_or_bounded)
{
    unsigned char bytes[RANK_VIEW_BYTES_AT_MOST], changed[RANK_VIEW_BYTES_AT_MOST];
    struct rank_view view = a_view();
    size_t count = rank_view_encode(&view, bytes);
    unsigned seed = 2;
    for (size_t i = 0; i < count; ++i) {
        struct rank_view after = {.step = 5};
        ck_assert(!rank_view_decode(bytes, i, &after));
        ck_assert_uint_eq(after.step, 5);
    }
    for (int i = 0; i < CHANGES; ++i) {
        struct rank_view after = {0};
        memcpy(changed, bytes, count);
        changed[(size_t)rand_r(&seed) % count] = (unsigned char)rand_r(&seed);
        if (!rank_view_decode(changed, count, &after))
            continue;
        ck_assert_uint_le(after.stage, RANK_STAGE_FAILED);
        ck_assert_uint_lt(strlen(after.failure), sizeof(after.failure));
        ck_assert_int_ge(after.exit_code, 0);
        ck_assert_int_le(after.signal, 64);
    }
}

TEST(steps_are_not_urgent_ends_are)
{
    struct rank_view before = a_view(), after = a_view();
    after.step += 100;
    after.timed_steps = 5;
    ck_assert(!rank_view_is_urgent(&before, &after));
    after.failure[0] = 'T';
    ck_assert(rank_view_is_urgent(&before, &after));
    after = before;
    after.connected = false;
    ck_assert(rank_view_is_urgent(&before, &after));
}

TEST(frames_are_found_and_nonsense_is_no_frame)
{
    unsigned char bytes[FRAME_HEADER_BYTES + 5] = {5,   0,   0,   0,  FRAME_VIEW, [FRAME_HEADER_BYTES] = 'h',
                                                   'e', 'l', 'l', 'o'};
    struct seal none = {.is_on = false};
    struct peer_frame frame;
    for (size_t i = 0; i < sizeof(bytes); ++i)
        ck_assert_int_eq(peer_frame_parse(bytes, i, FRAME_BYTES_AT_MOST, &none, &frame), 0);
    ck_assert_int_eq(peer_frame_parse(bytes, sizeof(bytes), FRAME_BYTES_AT_MOST, &none, &frame), (long)sizeof(bytes));
    ck_assert_int_eq(frame.kind, FRAME_VIEW);
    ck_assert_uint_eq(frame.count, 5);
    bytes[4] = FRAME_KINDS;
    ck_assert_int_eq(peer_frame_parse(bytes, sizeof(bytes), FRAME_BYTES_AT_MOST, &none, &frame), -1);
    bytes[4] = FRAME_VIEW;
    bytes[2] = 2; /* more than there may be */
    ck_assert_int_eq(peer_frame_parse(bytes, FRAME_HEADER_BYTES, FRAME_BYTES_AT_MOST, &none, &frame), -1);
}

/* Test vectors of RFC 4231, section 4.2, 4.3 and 4.7. */
static const struct hmac_row {
    const char *key, *text, *code;
    int key_repeats;
} hmac_rows[] = {
    {"\x0b", "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", 20},
    {"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", 1},
    {"\xaa", "Test Using Larger Than Block-Size Key - Hash Key First",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", 131},
};

TABLE_TEST(hmac_is_that_of_the_standard, hmac_rows)
{
    const struct hmac_row *row = &hmac_rows[_i];
    unsigned char key[256], code[SEAL_HASH_BYTES];
    char text[2 * SEAL_HASH_BYTES + 1];
    size_t length = strlen(row->key), half = strlen(row->text) / 2;
    for (int i = 0; i < row->key_repeats; ++i)
        memcpy(key + (size_t)i * length, row->key, length);
    const struct seal_part parts[] = {{row->text, half}, {row->text + half, strlen(row->text) - half}};
    seal_hmac(key, (size_t)row->key_repeats * length, parts, 2, code);
    for (int i = 0; i < SEAL_HASH_BYTES; ++i)
        snprintf(text + 2 * (size_t)i, 3, "%02x", code[i]);
    ck_assert_str_eq(text, row->code);
}

enum { FRAMES = 3 };

/* What one end of a link sends, as bytes on the wire: `ends` is where each frame does. */
static size_t
make_stream(const unsigned char key[AUTH_BYTES], bool is_root, unsigned char *bytes, size_t room, size_t ends[FRAMES])
{
    int fds[2];
    size_t count = 0;
    struct peer_link link;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    supervisor_link_open(&link, fds[0], key, is_root);
    for (int i = 0; i < FRAMES; ++i) {
        peer_link_send_quietly(&link, FRAME_REPORT, "a report", (size_t)i * 4);
        count += (size_t)recv(fds[1], bytes + count, room - count, MSG_DONTWAIT);
        ends[i] = count;
    }
    peer_link_close(&link);
    close(fds[1]);
    return count;
}

/* How many frames the other end believes. */
static int
count_believed(const unsigned char key[AUTH_BYTES], bool is_root, const unsigned char *bytes, size_t count)
{
    struct seal seal;
    struct peer_frame frame;
    int believed = 0;
    seal_open(&seal, key, is_root);
    for (long taken; (taken = peer_frame_parse(bytes, count, FRAME_BYTES_AT_MOST, &seal, &frame)) > 0; ++believed) {
        bytes += taken;
        count -= (size_t)taken;
    }
    return believed;
}

/* A process between the ends can pass on, or cut: all else ends the belief where it begins. */
TEST(a_sealed_frame_is_believed_once_in_its_turn_and_unchanged)
{
    const unsigned char key[AUTH_BYTES] = {3}, other[AUTH_BYTES] = {4};
    unsigned char bytes[512], changed[1024];
    size_t ends[FRAMES], count = make_stream(key, true, bytes, sizeof(bytes), ends);
    ck_assert_int_eq(count_believed(key, false, bytes, count), FRAMES);
    ck_assert_int_eq(count_believed(key, true, bytes, count), 0); /* sent back to where it came from */
    ck_assert_int_eq(count_believed(other, false, bytes, count), 0);
    for (size_t bit = 0; bit < count * 8; ++bit) {
        int frame = bit / 8 < ends[0] ? 0 : bit / 8 < ends[1] ? 1 : 2;
        memcpy(changed, bytes, count);
        changed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_int_eq(count_believed(key, false, changed, count), frame);
    }
    ck_assert_int_eq(count_believed(key, false, bytes + ends[0], count - ends[0]), 0); /* one left out */
    memcpy(changed, bytes, ends[0]);
    memcpy(changed + ends[0], bytes, count); /* one repeated */
    ck_assert_int_eq(count_believed(key, false, changed, count + ends[0]), 1);
    memcpy(changed, bytes + ends[0], ends[1] - ends[0]); /* two exchanged */
    memcpy(changed + ends[1] - ends[0], bytes, ends[0]);
    ck_assert_int_eq(count_believed(key, false, changed, ends[1]), 0);
}

TEST(orders_are_bounded)
{
    unsigned char bytes[2048];
    struct peer_order order = {.exit_code = 130, .signal = 15, .grace_ms = 70000, .asked = 12, .text = "why"},
                      after = {0};
    size_t count = peer_order_encode(&order, bytes, sizeof(bytes));
    ck_assert(peer_order_decode(bytes, count, &after));
    ck_assert_int_eq(after.exit_code, 130);
    ck_assert_int_eq(after.grace_ms, 70000);
    ck_assert_int_eq(after.asked, 12);
    ck_assert_str_eq(after.text, "why");
    ck_assert(!peer_order_decode(bytes, count - 1, &after));
    order.grace_ms = DDPRUN_LONGEST_GRACE_S * 1000;
    ck_assert(peer_order_decode(bytes, peer_order_encode(&order, bytes, sizeof(bytes)), &after));
    order.grace_ms += 1; /* no option allows that */
    ck_assert(!peer_order_decode(bytes, peer_order_encode(&order, bytes, sizeof(bytes)), &after));
    order = (struct peer_order){.asked = 65};
    ck_assert(!peer_order_decode(bytes, peer_order_encode(&order, bytes, sizeof(bytes)), &after));
}

TEST(auth_wants_the_secret_and_both_nonces)
{
    unsigned char secret[AUTH_BYTES] = {1}, wrong[AUTH_BYTES] = {2};
    struct auth_challenge challenge, other;
    struct auth_answer answer;
    struct auth_welcome welcome;
    ck_assert(auth_challenge_make(&challenge, NULL) && auth_challenge_make(&other, NULL));
    ck_assert(auth_answer_make(secret, &challenge, PEER_SUPERVISOR, 3, &answer));
    ck_assert(auth_welcome_make(secret, &challenge, &answer, 4, &welcome));
    ck_assert(auth_welcome_holds(secret, &challenge, &answer, &welcome));
    unsigned char key[AUTH_BYTES], unlike[AUTH_BYTES];
    auth_session_key(secret, &challenge, &answer, key);
    auth_session_key(secret, &other, &answer, unlike);
    ck_assert_mem_ne(key, unlike, AUTH_BYTES);
    auth_session_key(wrong, &challenge, &answer, unlike);
    ck_assert_mem_ne(key, unlike, AUTH_BYTES);
    ck_assert(!auth_welcome_holds(wrong, &challenge, &answer, &welcome));
    ck_assert(!auth_welcome_make(wrong, &challenge, &answer, 4, &welcome));
    ck_assert(!auth_welcome_make(secret, &other, &answer, 4, &welcome));     /* a recording */
    ck_assert(!auth_welcome_make(secret, &challenge, &answer, 3, &welcome)); /* no such rank */
    memcpy(welcome.mac, answer.mac, sizeof(welcome.mac));                    /* our own words sent back */
    ck_assert(!auth_welcome_holds(secret, &challenge, &answer, &welcome));
    struct auth_answer changed = answer;
    changed.rank = 2;
    ck_assert(!auth_welcome_make(secret, &challenge, &changed, 4, &welcome));
    changed = answer;
    changed.purpose = PEER_ENGINE;
    ck_assert(!auth_welcome_make(secret, &challenge, &changed, 4, &welcome));
    challenge.magic[7] ^= 1; /* another version */
    ck_assert(!auth_answer_make(secret, &challenge, PEER_SUPERVISOR, 3, &answer));
}

TEST(networks)
{
    struct host_address four = {.family = 4, .bytes = {10, 1, 130, 3}}, six = {.family = 6, .bytes = {0xfd, 0, 0, 1}};
    ck_assert(addresses_in_network(&four, "10.1.0.0/16"));
    ck_assert(addresses_in_network(&four, "10.1.128.0/17"));
    ck_assert(!addresses_in_network(&four, "10.1.0.0/17"));
    ck_assert(addresses_in_network(&four, "0.0.0.0/0"));
    ck_assert(addresses_in_network(&four, "10.1.130.3/32"));
    ck_assert(!addresses_in_network(&four, "::/0"));
    ck_assert(addresses_in_network(&six, "fd00::/16"));
    struct network network;
    static const char *const none[] = {"10.1.0.0", "10.1.0.0/",     "10.1.0.0/33",        "10.1.0/8", "eth0",
                                       "/8",       "10.1.0.0/ 8",   "10.1.0.0/-1",        "::/129",   "",
                                       "::/8x",    "99999999999/1", "10.1.0.0/4294967297"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); ++i)
        ck_assert_msg(!network_parse(none[i], &network), "%s", none[i]);
}
