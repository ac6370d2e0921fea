/*
 * tenmap over MPI. tenmap_mpi.h has its promises; tenmap_mpi_plan.h decides which rank reads what.
 * This is the only file to compile. It includes the others; each has one subject and uses only
 * those before it. Every name in them that tenmap_mpi.h does not declare is static.
 *
 * A load takes these steps. Every rank checks its own arguments, and all agree. The ranks exchange
 * their request lists, and each makes the plan. A walk through the plan without data shows how much
 * memory is needed, each rank allocates it, and all agree. Then chunk after chunk is read and
 * delivered. From here on nothing is allocated, so that no rank can drop out: a rank that fails
 * keeps to the schedule, with its chunks marked bad, until all ranks know. A last agreement
 * determines whose error is returned.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "tenmap_mpi.h"
#include "tenmap_mpi_state.h"
#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_compare.h"
#include "tenmap_mpi_open.h"
#include "tenmap_mpi_requests.h"
#include "tenmap_mpi_streams.h"
#include "tenmap_mpi_place.h"
#include "tenmap_mpi_read.h"
#include "tenmap_mpi_deliver.h"
#include "tenmap_mpi_buffers.h"
#include "tenmap_mpi_load.h"
#include "tenmap_mpi_shared.h"
