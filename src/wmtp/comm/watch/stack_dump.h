// Where every thread of this process stands, for the report of a hang.
#pragma once

namespace wmtp::comm {

// Loads what a dump needs, so that dumping allocates nothing.
void prepare_stack_dump();
// Writes the stacks of all threads to `fd`, at most 0.2 s. Interrupts their blocking calls: only
// for a process that is about to end.
void dump_stacks(int fd);

}  // namespace wmtp::comm
