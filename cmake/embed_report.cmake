# Converts the HTML, CSS and JavaScript of the report into C arrays, with the hashes that its
# Content-Security-Policy names. Needs only CMake.
#   cmake -DSOURCE=tool/report/page -DOUTPUT=report_assets.c -P embed_report.cmake

# Concatenates the files into one script with one scope, in dependency order.
set(scripts base data legend overview tree treemap heatmap table detail files main)
set(script "\"use strict\";\n(() => {\n")
foreach(name IN LISTS scripts)
  file(READ ${SOURCE}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
file(WRITE ${OUTPUT}.js "${script}")

# A hash in the form that the policy uses: the base64 encoding of 32 bytes.
function(base64_of_hash path result)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  file(SHA256 ${path} hex)
  string(APPEND hex "00") # 33 bytes are eleven groups of three; the last digit is the padding
  set(text "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING ${hex} ${at} 6 group)
    foreach(shift IN ITEMS 18 12 6 0)
      math(EXPR digit "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${digit} 1 letter)
      string(APPEND text ${letter})
    endforeach()
  endforeach()
  string(SUBSTRING ${text} 0 43 text)
  set(${result} "${text}=" PARENT_SCOPE)
endfunction()

function(add_array name path)
  file(READ ${path} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR size "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n"
         bytes "${bytes}")
  string(APPEND code "const unsigned char report_${name}[] = {\n${bytes}};\n"
                     "const size_t report_${name}_size = ${size};\n")
  set(code "${code}" PARENT_SCOPE)
endfunction()

set(code "/* Made from tool/report/page by cmake/embed_report.cmake. */\n#include \"report/assets.h\"\n\n")
add_array(page ${SOURCE}/page.html)
add_array(style ${SOURCE}/page.css)
add_array(script ${OUTPUT}.js)
base64_of_hash(${SOURCE}/page.css hash)
string(APPEND code "const char report_style_hash[] = \"${hash}\";\n")
base64_of_hash(${OUTPUT}.js hash)
string(APPEND code "const char report_script_hash[] = \"${hash}\";\n")
file(WRITE ${OUTPUT} "${code}")
