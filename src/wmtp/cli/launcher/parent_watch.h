// The rank's side of the life line: a thread that waits for the launcher's end of the pipe to
// close, grants the time to save, and then ends the process, whatever it is doing.
#pragma once

namespace wmtp::cli {

// Does nothing outside `wmtp launch` (WMTP_LIFE_LINE unset). THREADS: starts one, for the life of
// the process; call once, early in main.
void watch_launcher();

}  // namespace wmtp::cli
