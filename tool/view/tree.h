/* Shows tensor names as a tree: model.layers.0.mlp is a path of modules. */
#ifndef TOOL_TREE_H
#define TOOL_TREE_H

#include <stdint.h>

#include "tensor_patterns.h"

/*
 * Prints the tensors as a tree of the modules in their names, numbers in natural order, with sums
 * for each module down to `depth` levels (0: all). A module that contains only one other module is
 * joined with it. `folds` shows numbered modules with the same contents once, with their numbers
 * and gaps, and also splits names at numbers (module_numbers.h). Sorts the selection.
 */
void tree_print(selection *s, uint64_t depth, bool folds);

/*
 * Sorts module by module, each in natural order, so that the tensors of a module are adjacent.
 * `at_numbers` splits names as module_numbers.h does; otherwise only dots separate modules.
 */
void tree_sort(selection *s, bool at_numbers);

#endif
