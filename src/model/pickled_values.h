/*
 * Opens a checkpoint for a program that makes objects of all its values: the Python package. A
 * model that is opened in this way lists no tensors and has no metadata.
 */
#ifndef TENMAP_PICKLED_VALUES_H
#define TENMAP_PICKLED_VALUES_H

#include "../format/pytorch.h"

/* As tenmap_open and tenmap_open_memory. */
tenmap_status tmi_open_values(const char *path, const tenmap_options *options, tenmap_model **out,
                              tenmap_error *error);
tenmap_status tmi_open_values_memory(const void *bytes, size_t size, const tenmap_options *options,
                                     tenmap_model **out, tenmap_error *error);
/*
 * The values, a tmi_torch_values, which do not change until the model is closed. NULL: the model is
 * not one file of a format that has a pickle.
 */
const void *tmi_values_of(const tenmap_model *model);

#endif
