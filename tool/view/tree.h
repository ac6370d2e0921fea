/* Names as a tree: model.layers.0.mlp is a path of modules. */
#ifndef TOOL_TREE_H
#define TOOL_TREE_H

#include <stdint.h>

#include "tensor_patterns.h"

/*
 * Prints the tensors by the modules that their names spell, numbers in natural order, with sums for
 * each module down to `depth` levels (0: all). A module that holds nothing but one other is written
 * together with it. `folds` shows numbered modules that hold the same once, with their numbers and gaps,
 * and parts names at numbers too (module_numbers.h). Sorts the selection.
 */
void tree_print(selection *s, uint64_t depth, bool folds);

/*
 * Module by module, each in natural order: what belongs to one module stands together. `numbered` takes
 * the parts of module_numbers.h for modules, else it is dots alone that part them.
 */
void tree_sort(selection *s, bool numbered);

#endif
