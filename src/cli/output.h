// Results on stdout. A reader that closed the pipe ends the program quietly (ClosedPipe, which
// run_guarded() turns into exit code 0); any other failure is a ResourceError.
#pragma once

#include <exception>
#include <string_view>

namespace taper {

class ClosedPipe : public std::exception {};

void print_text(std::string_view text);  // as it is: no newline added
void flush_output();  // after each piece of a stream, and at the end of a program

}  // namespace taper
