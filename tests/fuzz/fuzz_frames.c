/*
 * fuzz_frames.c - targets: what comes over sockets. Frames of the ranks' control plane, and what supervisors send each
 * other: handshakes, authentication, frames, orders, views.
 *
 * Required: what is taken for sound is within its bounds, and written down again it is the same; without the secret
 * nothing is an authentication.
 */
#include "launcher/watch/verdict.h"
#include "tests/fuzz/fuzz.h"

#include "base/protocol.h"
#include "comm/control.h"
#include "launcher/cluster/auth.h"
#include "launcher/cluster/handshake.h"
#include "launcher/cluster/peer_bytes.h"
#include "launcher/common/network.h"
#include "launcher/options/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- control.c: a rank whose peers say what they like and then close ---- */

enum { WORLD = 3, CONTROL_BYTES_AT_MOST = 60000 };

/* A socket from which these bytes, and no more, can be read; *other_p is its other end. */
static int
socket_with(const uint8_t *bytes, size_t count, int *other_p)
{
    int ends[2];
    fuzz_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
    fuzz_require(send(ends[1], bytes, count, MSG_DONTWAIT) == (ssize_t)count, "they have room");
    shutdown(ends[1], SHUT_WR);
    *other_p = ends[1];
    return ends[0];
}

/* The first byte chooses the rank; the rest is what its peers say, for rank 0 the halves. */
void
fuzz_control(const uint8_t *bytes, size_t count)
{
    if (count < 1 || count > CONTROL_BYTES_AT_MOST)
        return;
    bool is_root = bytes[0] % 2 == 0;
    size_t half = (count - 1) / 2;
    struct peer_link peers[WORLD] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    int others[WORLD] = {-1, -1, -1};
    struct control control = {.rank = is_root ? 0 : 1, .world_size = WORLD, .peers = peers, .timeout_s = 20};
    control.peer_count = is_root ? WORLD : 1;
    if (is_root) {
        peer_link_open(&peers[1], socket_with(bytes + 1, half, &others[1]), NULL, true, CONTROL_BYTES_AT_MOST);
        peer_link_open(&peers[2], socket_with(bytes + 1 + half, count - 1 - half, &others[2]), NULL, true,
                       CONTROL_BYTES_AT_MOST);
    } else {
        peer_link_open(&peers[0], socket_with(bytes + 1, count - 1, &others[0]), NULL, false, CONTROL_BYTES_AT_MOST);
    }
    struct control_messages messages;
    struct comm_error error = {""};
    if (control_exchange(&control, "a step", "mine", 4, &messages, &error)) {
        fuzz_require(messages.count == WORLD, "every rank sent a message");
        for (int r = 0; r < WORLD; ++r)
            fuzz_require(messages.bytes[r] <= count && ((char *)messages.messages[r])[messages.bytes[r]] == '\0',
                         "messages have the length that came, and an end");
        control_free_messages(&messages);
    } else {
        fuzz_require(error.text[0] != '\0' && strnlen(error.text, sizeof(error.text)) < sizeof(error.text),
                     "a failure has its text");
    }
    control_close(&control);
    for (int r = 0; r < WORLD; ++r) {
        peer_link_close(&peers[r]);
        if (others[r] >= 0)
            close(others[r]);
    }
}

/* From which control.c gets its sockets, and does not here. */
bool
rendezvous_links(struct rendezvous *rendezvous, struct peer_link *links, int timeout_s, struct comm_error *error)
{
    (void)rendezvous, (void)links, (void)timeout_s;
    return comm_fail(error, "no other rank to meet");
}

/* ---- supervisors ---- */

void
fuzz_handshake(const uint8_t *bytes, size_t count)
{
    static struct handshake handshakes[2], again;
    static unsigned char encoded[HANDSHAKE_BYTES_AT_MOST], twice[HANDSHAKE_BYTES_AT_MOST];
    struct error error;
    memset(handshakes, 0, sizeof(handshakes));
    if (!handshake_decode(bytes, count, &handshakes[0]))
        return;
    struct handshake *handshake = &handshakes[0];
    fuzz_require(memchr(handshake->host, '\0', sizeof(handshake->host)) &&
                     memchr(handshake->terms, '\0', sizeof(handshake->terms)) &&
                     memchr(handshake->error, '\0', sizeof(handshake->error)) &&
                     memchr(handshake->host_id, '\0', sizeof(handshake->host_id)),
                 "texts have an end");
    fuzz_require(handshake->addresses.count >= 0 && handshake->addresses.count <= ADDRESSES_AT_MOST,
                 "the addresses can be counted");
    for (int i = 0; i < handshake->addresses.count; ++i) {
        char text[ADDRESS_TEXT_BYTES];
        struct sockaddr_storage address;
        addresses_text(&handshake->addresses.items[i], text);
        fuzz_require(addresses_socket_address(&handshake->addresses.items[i], handshake->port, &address) <=
                         sizeof(address),
                     "an address has a size");
    }
    size_t length = handshake_encode(handshake, encoded);
    fuzz_require(length <= sizeof(encoded) && handshake_decode(encoded, length, &again), "an encoded handshake is one");
    fuzz_require(handshake_encode(&again, twice) == length && memcmp(encoded, twice, length) == 0, "the same one");
    struct options options = {.job = {.bucket_bytes = 10 << 20}, .timeout_s = 600};
    terms_write(&options, true, handshakes[1].terms, sizeof(handshakes[1].terms));
    if (!handshake_agree(handshakes, 2, &error))
        fuzz_require(error.text[0] != '\0' && error.exit_code >= 0 && error.exit_code <= 255,
                     "a disagreement is reported");
}

/* The sum of all that a verdict may look at: nothing undefined is left in it. */
void
fuzz_view(const uint8_t *bytes, size_t count)
{
    static struct rank_view views[2], again;
    static unsigned char encoded[RANK_VIEW_BYTES_AT_MOST], twice[RANK_VIEW_BYTES_AT_MOST];
    struct error error = {.text = ""};
    memset(views, 0, sizeof(views));
    memset(&again, 0, sizeof(again));
    if (!rank_view_decode(bytes, count, &views[0]))
        return;
    fuzz_require(views[0].stage <= RANK_STAGE_FAILED, "the stage is a known one");
    fuzz_require(memchr(views[0].failure, '\0', sizeof(views[0].failure)) != NULL, "texts have an end");
    size_t length = rank_view_encode(&views[0], encoded);
    fuzz_require(length <= sizeof(encoded) && rank_view_decode(encoded, length, &again), "a view written down is one");
    fuzz_require(rank_view_encode(&again, twice) == length && memcmp(encoded, twice, length) == 0, "the same one");
    fuzz_require(!rank_view_is_urgent(&views[0], &again), "and no news");
    if (verdict_find(views, 2, &error))
        fuzz_require(error.text[0] != '\0' && error.exit_code > 0 && error.exit_code <= 255,
                     "a failure has a text and an exit code");
}

/* A stream in frames: cut anywhere, it is the same frames. */
void
fuzz_frames(const uint8_t *bytes, size_t count)
{
    struct peer_frame frame, shorter;
    struct seal none = {.is_on = false};
    size_t at = 0;
    for (;;) {
        long taken = peer_frame_parse(bytes + at, count - at, FRAME_BYTES_AT_MOST, &none, &frame);
        fuzz_require(taken >= -1 && (taken <= 0 || (size_t)taken <= count - at), "a frame lies within what came");
        if (taken <= 0)
            break;
        fuzz_require(frame.kind >= FRAME_HEARTBEAT && frame.kind < FRAME_KINDS, "its kind is a known one");
        fuzz_require(frame.bytes >= bytes + at && frame.bytes + frame.count == bytes + at + taken, "so do its bytes");
        fuzz_require(peer_frame_parse(bytes + at, (size_t)taken - 1, FRAME_BYTES_AT_MOST, &none, &shorter) == 0,
                     "less of it is not all of it");
        struct peer_order order, again;
        unsigned char encoded[sizeof(order) + 64];
        if (peer_order_decode(frame.bytes, frame.count, &order)) {
            fuzz_require(memchr(order.text, '\0', sizeof(order.text)) != NULL, "an order's text has an end");
            fuzz_require(order.exit_code >= 0 && order.exit_code <= 255 && order.signal >= 0 && order.signal <= 64,
                         "an order can be followed");
            size_t length = peer_order_encode(&order, encoded, sizeof(encoded));
            fuzz_require(length == frame.count && memcmp(encoded, frame.bytes, length) == 0 &&
                             peer_order_decode(encoded, length, &again),
                         "written down it is the same order");
        }
        at += (size_t)taken;
    }
}

enum { SEALED = 4, SEALED_BYTES = 64 };

/*
 * A process between two supervisors, which has four sealed frames of the one and does with them what the input says:
 * each turn passes a frame on, changes it, or makes up bytes. Believed are the frames that were sent, from the first
 * on, in their order.
 */
void
fuzz_sealed(const uint8_t *bytes, size_t count)
{
    static const unsigned char key[AUTH_BYTES] = "made of both nonces";
    static unsigned char sent[SEALED][FRAME_HEADER_BYTES + SEALED_BYTES];
    static unsigned char stream[1 << 16];
    size_t length = 0, at = 0;
    struct seal out, in;
    struct peer_frame frame;
    seal_open(&out, key, true);
    seal_open(&in, key, false);
    for (uint32_t i = 0; i < SEALED; ++i) {
        unsigned char *text = memset(sent[i] + FRAME_HEADER_BYTES, 'a' + (int)i, SEALED_BYTES);
        frame = (struct peer_frame){.kind = FRAME_REPORT, .bytes = text, .count = SEALED_BYTES};
        peer_frame_seal(&frame, &out, sent[i]);
    }
    while (count >= 4 && length + sizeof(sent[0]) + 255 < sizeof(stream)) {
        uint8_t what = bytes[0] % 3, with = bytes[1];
        bytes += 2, count -= 2;
        if (what == 2) {
            size_t made_up = with < count ? with : count;
            memcpy(stream + length, bytes, made_up);
            bytes += made_up, count -= made_up, length += made_up;
            continue;
        }
        memcpy(stream + length, sent[with % SEALED], sizeof(sent[0]));
        if (what == 1)
            stream[length + bytes[0] % sizeof(sent[0])] ^= bytes[1];
        length += sizeof(sent[0]);
    }
    for (uint32_t believed = 0;; ++believed) {
        long taken = peer_frame_parse(stream + at, length - at, FRAME_BYTES_AT_MOST, &in, &frame);
        if (taken <= 0)
            return;
        fuzz_require(believed < SEALED && (size_t)taken == sizeof(sent[0]) &&
                         memcmp(stream + at, sent[believed], sizeof(sent[0])) == 0,
                     "what is believed was sent, in this order");
        at += (size_t)taken;
    }
}

/* A peer that does not know the secret is not authenticated, as a client or as the root; and lists of networks hold any
 * text. */
void
fuzz_auth(const uint8_t *bytes, size_t count)
{
    const unsigned char secret[AUTH_BYTES] = "only supervisors of the job know";
    struct auth_challenge challenge, theirs;
    struct auth_answer answer, mine;
    struct auth_welcome welcome;
    fuzz_require(auth_challenge_make(&challenge, NULL), "a challenge can be made");
    if (count >= sizeof(answer)) {
        memcpy(&answer, bytes, sizeof(answer));
        memcpy(answer.magic, challenge.magic, sizeof(answer.magic));
        fuzz_require(!auth_welcome_make(secret, &challenge, &answer, 4, &welcome), "a guess is no answer");
    }
    if (count >= sizeof(theirs)) {
        memcpy(&theirs, bytes, sizeof(theirs));
        if (auth_answer_make(secret, &theirs, PEER_ENGINE, 1, &mine) && count >= sizeof(theirs) + sizeof(welcome)) {
            memcpy(&welcome, bytes + sizeof(theirs), sizeof(welcome));
            fuzz_require(!auth_welcome_holds(secret, &theirs, &mine, &welcome), "a guess is no welcome");
        }
    }
    char *text = fuzz_text(bytes, count);
    const struct host_address addresses[] = {{4, {10, 1, 2, 3}}, {6, {0xfd, [15] = 1}}};
    for (int i = 0; i < 2; ++i) {
        struct network network;
        if (addresses_in_network(&addresses[i], text))
            fuzz_require(network_parse(text, &network), "only a network holds an address");
    }
    free(text);
}
