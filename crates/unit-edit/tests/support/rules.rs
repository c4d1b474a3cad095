//! systemd's rules as examples: lines of a `[Service]` section, and the command lines that take effect.
//!
//! Words have `|` between them, commands ` / `.

/// Lines, and what they mean.
pub type Rules = &'static [(&'static str, &'static str)];

pub const CONTINUED: Rules = &[
    ("ExecStart=/x a \\\n b\n", "/x|a|b"),
    ("ExecStart=/x a\\\nb\n", "/x|a|b"),
    ("ExecStart=/x a \\\n\n", "/x|a"),
    ("ExecStart=/x a \\\n   \\\n b\n", "/x|a|b"),
    ("ExecStart=/x a \\", "/x|a"),
    ("ExecStart=/x a \\  \n b\n", "/x|a|\\"),
    ("ExecStart=/x a \\\\\n b\n", "/x|a|\\"),
    ("ExecStart=/x a \\\\\\\n b\n", "/x|a|\\|b"),
    ("ExecStart=/x a \\\r\n b\r\n", "/x|a|b"),
    ("ExecStart=/x a \\\r b\r", "/x|a|b"),
    ("ExecStart=/x a \\\nType=oneshot\n", "/x|a|Type=oneshot"),
    ("ExecStart=/x 'a \\\n b'\n", "/x|a   b"),
    ("Exec\\\nStart=/x\n", ""),
    ("ExecStart\\\n=/x\n", "/x"),
    ("ExecStart=\\\n/x\n", "/x"),
];

pub const COMMENTS: Rules = &[
    ("ExecStart=/x \\\n# note\n a\n", "/x|a"),
    ("ExecStart=/x \\\n  ; note \\\n a\n", "/x|a"),
    ("ExecStart=/x \\\n# note\n\nExecStartPre=/y\n", "/x"),
    ("ExecStart=/x a # b\n", "/x|a|#|b"),
    ("ExecStart=/x a ;b\n", "/x|a|;b"),
    ("# ExecStart=/x\n;ExecStart=/y\n", ""),
];

pub const QUOTES: Rules = &[
    (r#"ExecStart=/x "a b" 'c d' e" f "g"#, "/x|a b|c d|e f g"),
    (r#"ExecStart=/x "it's" 'say "x"' '' """#, r#"/x|it's|say "x"||"#),
    (r"ExecStart=/x \x41\101\u0042\U00000043 '\n' \s", "/x|AABC|\n| "),
    (r"ExecStart=/x \' \x22 \\ a\ b", r#"/x|'|"|\|a\ b"#),
    (r"ExecStart=/x \q \x0g \u12 \U00110000 \08 \400", r"/x|\q|\x0g|\u12|\U00110000|\08|\400"),
    (r"ExecStart=/x \x00 \000 \u0000", r"/x|\x00|\000|\u0000"),
    ("ExecStart=/x a\u{c}b c\n", "/x|a\u{c}b|c"),
    ("ExecStart=\"/x\" a\n", "/x|a"),
];

pub const RESETS: Rules = &[
    ("ExecStart=/x\nExecStart=/y\n", "/x / /y"),
    ("ExecStart=/x\nExecStart=\nExecStart=/y\n", "/y"),
    ("ExecStart=/x\nExecStart= \\\n\n", ""),
    ("ExecStart=/x\nExecStart=\"\"\n", "/x"),
    ("ExecStart=/x\nExecStart=;\n", "/x"),
    ("ExecStart=/x a ; /y b\n", "/x|a / /y|b"),
    ("ExecStart=/x a ; \n", "/x|a"),
    ("ExecStart=/x a \\; b ';' c;\n", "/x|a|;|b|;|c;"),
    ("ExecStart=; /x\n", "/x"),
    ("ExecStart=';' /x\n", "/x"),
];

pub const PREFIXES: Rules = &[
    ("ExecStart=-/x a\n", "/x|a"),
    ("ExecStart=@/x name a\n", "name|a"),
    ("ExecStart=-@:+/x name a\n", "name|a"),
    ("ExecStart=!!/x\n", "/x"),
    ("ExecStart=x a\n", "x|a"),
    ("ExecStart=!!!/x\n", ""),
    ("ExecStart=-@/x ; /y\n", ""),
    ("ExecStart=/x ; -@/y ; /z\n", "/x"),
    ("ExecStart=@/x ; /y\n", ""),
    ("ExecStart=@/x a ; /y\n", "a / /y"),
    ("ExecStart=+!/x\n", ""),
    ("ExecStart=!+/x\n", ""),
    ("ExecStart=--/x\n", ""),
    ("ExecStart=::/x\n", ""),
    ("ExecStart=- /x\n", ""),
    ("ExecStart=-/x 'a\n", ""),
    ("ExecStart='/x a\n", ""),
];

pub const BYTE_ORDER_MARKS: Rules = &[
    ("\u{feff}ExecStart=/x\n", "/x"),
    ("# c\n\u{feff}ExecStart=/x\n", "/x"),
    ("\u{feff}X-A=1\n\u{feff}ExecStart=/x\n", ""),
    ("\u{feff}\u{feff}ExecStart=/x\n", ""),
    ("\u{feff}# X-A=1 \\\nExecStart=/x\n", ""),
    ("ExecStart=/x \\\n\u{feff}a\n", "/x|a"),
    (" \u{feff}ExecStart=/x\n", ""),
];

/// All of them.
pub const ALL: [Rules; 6] = [CONTINUED, COMMENTS, QUOTES, RESETS, PREFIXES, BYTE_ORDER_MARKS];
