/*
 * allreduce_mpi.c - MPI_Allreduce of float sums: mpirun -n N allreduce_mpi. Run by bench/softgpu, as the peer that the
 * stand-in's NCCL is measured against. Prints one line a size.
 */
#include "allreduce.h"
#include "report.h"

#include <mpi.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int s = 0; s < ALLREDUCE_SIZES; ++s) {
        size_t count = allreduce_sizes[s].bytes / sizeof(float);
        float *send = malloc(count * sizeof(float)), *receive = malloc(count * sizeof(float));
        double times[64];
        for (size_t i = 0; i < count; ++i) {
            send[i] = (float)(i % 7);
            receive[i] = 0;
        }
        for (int i = -2; i < allreduce_sizes[s].repetitions; ++i) { /* two to warm up */
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = allreduce_now();
            MPI_Allreduce(send, receive, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            double mine = allreduce_now() - begin, slowest;
            MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            if (i >= 0)
                times[i] = slowest;
        }
        if (rank == 0)
            allreduce_print(allreduce_sizes[s].bytes, report_median(times, (size_t)allreduce_sizes[s].repetitions));
        free(send);
        free(receive);
    }
    MPI_Finalize();
    return 0;
}
