/*
 * Decides which rank reads what and who gets it. This part of tenmap_mpi needs neither MPI nor a
 * model, so that bench/mpi_plan.c can run it for a thousand ranks. tenmap_mpi.c includes it once;
 * every name is static.
 *
 * A stream is a tensor of which some rank wants something: units (elements, or blocks of a block
 * dtype) in row-major order. The boxes that ranks want cut it into cells. Each cell is wanted whole
 * by one set of ranks, its group. All wanted units of all streams, in file order, form one long
 * row. With n readers, each owns 1/n of the row's bytes, in order, and walks through its share
 * chunk by chunk. Each chunk becomes one message for each group in it. Every rank computes the same
 * plan. No rank keeps a list of chunks: a cursor per reader is enough.
 */
#ifndef TENMAP_MPI_PLAN_H
#define TENMAP_MPI_PLAN_H

#include "tenmap_mpi_plan_types.h"
#include "tenmap_mpi_plan_boxes.h"
#include "tenmap_mpi_plan_wanted.h"
#include "tenmap_mpi_plan_groups.h"
#include "tenmap_mpi_plan_cells.h"
#include "tenmap_mpi_plan_readers.h"
#include "tenmap_mpi_plan_chunks.h"
#include "tenmap_mpi_plan_routes.h"

#endif
