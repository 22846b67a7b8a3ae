//! The numbers and captions of OCSF 1.8.0 that are used.

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal $caption:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// The number.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self { $(Self::$variant => $number,)* }
            }

            /// The standard's word for it.
            #[must_use]
            pub const fn caption(self) -> &'static str {
                match self { $(Self::$variant => $caption,)* }
            }
        }
    };
}

numbered! {
    /// What happened to an entity (class 3004).
    EntityActivity {
        /// It was made.
        Create = 1 "Create",
        /// It was changed.
        Update = 3 "Update",
        /// It was switched on.
        Enable = 8 "Enable",
        /// It was switched off by somebody.
        Disable = 9 "Disable",
        /// It was put to use.
        Activate = 10 "Activate",
        /// It ended.
        Deactivate = 11 "Deactivate",
        /// It rests.
        Suspend = 12 "Suspend",
        /// It goes on.
        Resume = 13 "Resume",
    }
}

numbered! {
    /// What a call did or wanted to do (class 6003).
    ApiActivity {
        /// It makes something.
        Create = 1 "Create",
        /// It reads.
        Read = 2 "Read",
        /// It changes something.
        Update = 3 "Update",
        /// None of these.
        Other = 99 "Other",
    }
}

numbered! {
    /// What the control did (profile `security_control`).
    Disposition {
        /// It let it through.
        Allowed = 1 "Allowed",
        /// It kept it from happening.
        Blocked = 2 "Blocked",
        /// Somebody said yes.
        Approved = 8 "Approved",
        /// What was stopped may go on.
        Restored = 9 "Restored",
        /// It has to wait.
        Delayed = 14 "Delayed",
        /// It was noticed.
        Detected = 15 "Detected",
        /// It was written down.
        Logged = 17 "Logged",
        /// What was given was taken back.
        AccessRevoked = 24 "Access Revoked",
        /// Somebody said no.
        Rejected = 25 "Rejected",
        /// Whoever asked may not.
        Unauthorized = 26 "Unauthorized",
        /// It went wrong.
        Error = 27 "Error",
    }
}

numbered! {
    /// What a control did, in short (profile `security_control`).
    Action {
        /// It was let through.
        Allowed = 1 "Allowed",
        /// It was not.
        Denied = 2 "Denied",
        /// It was only seen.
        Observed = 3 "Observed",
    }
}

numbered! {
    /// How much it needs a person.
    Severity {
        /// Not at all.
        Informational = 1 "Informational",
        /// Perhaps.
        Low = 2 "Low",
        /// Soon.
        High = 4 "High",
    }
}

numbered! {
    /// How it ended.
    Status {
        /// Nobody knows yet.
        Unknown = 0 "Unknown",
        /// As asked.
        Success = 1 "Success",
        /// Refused, or it went wrong.
        Failure = 2 "Failure",
    }
}

numbered! {
    /// What kind of user acts.
    UserType {
        /// A person.
        User = 1 "User",
        /// The program itself.
        System = 3 "System",
        /// A registered client.
        Service = 4 "Service",
        /// A rule of the policy, or nobody that could be authenticated.
        Other = 99 "Other",
    }
}
