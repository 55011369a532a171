/*
 * batch_depends_on_what_was_read.cu - `ddprun --plan auto` refuses a policy that plays: the host reads the policy's
 * answers, acts by them, and makes the next batch from that. Ranks that compute batches in turn would play other games.
 */
#include "tests/programs/layer.h"

enum { PLAYS = 16 };

int
main(void)
{
    struct layer layer = layer_create();
    float *seen, *wished;
    std::vector<float> places(PLAYS * INPUTS), answers(PLAYS * OUTPUTS), wishes(PLAYS * OUTPUTS);
    CHECK(cudaMalloc(&seen, PLAYS * INPUTS * sizeof(float)));
    CHECK(cudaMalloc(&wished, PLAYS * OUTPUTS * sizeof(float)));
    layer.x = seen;
    layer.target = wished;
    for (unsigned step = 0; step < 4 * STEPS; ++step) {
        for (unsigned i = 0; i < places.size(); ++i) /* the player goes where the last answer led */
            places[i] = 0.5f * noise_of(step, i) + answers[i / INPUTS * OUTPUTS + i % OUTPUTS];
        CHECK(cudaMemcpy(seen, places.data(), places.size() * sizeof(float), cudaMemcpyHostToDevice));
        layer_forward(&layer, 0, PLAYS);
        CHECK(cudaMemcpy(answers.data(), layer.output, answers.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (unsigned i = 0; i < wishes.size(); ++i)
            wishes[i] = 0.6f * (places[i / OUTPUTS * INPUTS] > answers[i] ? 1.0f : -1.0f);
        CHECK(cudaMemcpy(wished, wishes.data(), wishes.size() * sizeof(float), cudaMemcpyHostToDevice));
        layer_loss(&layer, 0, PLAYS, PLAYS);
        layer_backward(&layer, 0, PLAYS, 0.0f);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
